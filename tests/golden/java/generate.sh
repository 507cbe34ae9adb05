#!/bin/sh
# Writes the golden vectors anew: tests/golden/<api>/v<N>.{hex,json}, records/, headers.txt, patterns.txt and hlog/encoded.txt.
# Needs a JDK (17 or newer) and Maven. The result is committed; a second run changes nothing.
set -eu
cd "$(dirname "$0")"
mvn -q compile dependency:build-classpath -Dmdep.outputFile=target/classpath
java -cp "target/classes:$(cat target/classpath)" Golden ..
java -cp "target/classes:$(cat target/classpath)" Patterns ../patterns.txt
java -cp "target/classes:$(cat target/classpath)" Hlog ../hlog
