//! rskafka: the contract's verbs (see ../README.md).
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, BufRead};
use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use chrono::{DateTime, Utc};
use rskafka::BackoffConfig;
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::{Record, RecordAndOffset};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

const MANIFEST: &str = include_str!("../Cargo.toml");
const FETCH_BYTES: std::ops::Range<i32> = 1..1 << 20;
const WAIT_MS: i32 = 500;
const SECONDS: u64 = 60;
const BY_DEFAULT: usize = 100;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = tokio::time::timeout(Duration::from_secs(SECONDS), run(&args)).await;
    let error = match outcome {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no end after {SECONDS} s"),
    };
    eprintln!("{}", error.replace('\n', " "));
    std::process::exit(1);
}

async fn run(args: &[String]) -> Outcome<()> {
    let [brokers, verb, rest @ ..] = args else {
        return Err("usage: program BROKERS VERB ARGS...".into());
    };
    let client = ClientBuilder::new(vec![brokers.clone()])
        .backoff_config(BackoffConfig {
            deadline: Some(Duration::from_secs(10)),
            ..Default::default()
        })
        .build()
        .await?;
    match (verb.as_str(), rest) {
        ("versions", []) => versions(),
        ("create", [topic, partitions]) => create(&client, topic, partitions.parse()?).await?,
        ("delete", [topic]) => {
            client
                .controller_client()?
                .delete_topic(topic, 5000)
                .await?
        }
        ("produce", [topic, codec, acks, idempotent]) => {
            if acks != "-1" || idempotent != "0" {
                put(json!({"unsupported": "rskafka has acks=all only, and no idempotence"}));
            } else {
                produce(&client, topic, codec).await?;
            }
        }
        ("read", [topic, partitions]) => read(&client, topic, partitions.parse()?).await?,
        ("lookup", [topic, partition, time]) => {
            let at = partition_of(&client, topic, partition.parse()?).await?;
            let offset = at
                .get_offset(OffsetAt::Timestamp(time_of(time.parse()?)?))
                .await?;
            put(json!({"offset": offset, "timestamp": null}));
        }
        ("admin", [topic, time]) => admin(&client, topic, time.parse()?).await?,
        _ => return Err(format!("no such verb: {verb}").into()),
    }
    Ok(())
}

fn put(line: Value) {
    println!("{line}");
}

/// The version that the manifest pins.
fn version() -> &'static str {
    let pinned = MANIFEST
        .lines()
        .find_map(|line| line.strip_prefix("rskafka = \"="));
    pinned.unwrap_or_default().trim_end_matches('"')
}

fn versions() {
    put(json!({"client": "rskafka", "version": version(), "lacks": {
        "null-header": "a header's value is not optional",
        "many-headers": "headers are a map: one of each name, in the order of the names",
    }}));
}

async fn create(client: &Client, topic: &str, partitions: i32) -> Outcome<()> {
    Ok(client
        .controller_client()?
        .create_topic(topic, partitions, 1, 5000)
        .await?)
}

async fn partition_of(client: &Client, topic: &str, partition: i32) -> Outcome<PartitionClient> {
    Ok(client
        .partition_client(topic, partition, UnknownTopicHandling::Error)
        .await?)
}

fn time_of(milliseconds: i64) -> Outcome<DateTime<Utc>> {
    DateTime::from_timestamp_millis(milliseconds).ok_or("no such time".into())
}

fn decoded(text: &Value) -> Outcome<Option<Vec<u8>>> {
    Ok(text
        .as_str()
        .map(|text| STANDARD.decode(text))
        .transpose()?)
}

fn encoded(data: &Option<Vec<u8>>) -> Option<String> {
    data.as_ref().map(|data| STANDARD.encode(data))
}

fn record_of(line: &Value) -> Outcome<Record> {
    let mut headers = BTreeMap::new();
    for header in line["headers"].as_array().into_iter().flatten() {
        headers.insert(
            header[0].as_str().unwrap_or_default().into(),
            decoded(&header[1])?.unwrap_or_default(),
        );
    }
    let timestamp = time_of(line["timestamp"].as_i64().unwrap_or_default())?;
    Ok(Record {
        key: decoded(&line["key"])?,
        value: decoded(&line["value"])?,
        headers,
        timestamp,
    })
}

fn put_record(partition: i32, RecordAndOffset { record, offset }: &RecordAndOffset) {
    let headers: Vec<Value> = record
        .headers
        .iter()
        .map(|(name, value)| json!([name, STANDARD.encode(value)]))
        .collect();
    put(
        json!({"partition": partition, "offset": offset, "key": encoded(&record.key),
        "value": encoded(&record.value), "headers": headers, "timestamp": record.timestamp.timestamp_millis()}),
    );
}

async fn produce(client: &Client, topic: &str, codec: &str) -> Outcome<()> {
    let compression = match codec {
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => Compression::NoCompression,
    };
    let (mut partition, mut records) = (0, vec![]);
    for text in io::stdin().lock().lines() {
        let line: Value = serde_json::from_str(&text?)?;
        partition = line["partition"].as_i64().unwrap_or_default() as i32; // The same in all lines of a run.
        records.push(record_of(&line)?);
    }
    for offset in partition_of(client, topic, partition)
        .await?
        .produce(records, compression)
        .await?
    {
        put(json!({"partition": partition, "offset": offset}));
    }
    Ok(())
}

async fn read(client: &Client, topic: &str, partitions: i32) -> Outcome<()> {
    for partition in 0..partitions {
        let from = partition_of(client, topic, partition).await?;
        let end = from.get_offset(OffsetAt::Latest).await?;
        let mut next = 0;
        while next < end {
            let (records, _) = from.fetch_records(next, FETCH_BYTES, WAIT_MS).await?;
            for record in &records {
                put_record(partition, record);
                next = record.offset + 1;
            }
        }
    }
    Ok(())
}

async fn admin(client: &Client, topic: &str, time: i64) -> Outcome<()> {
    let call = |name: &str, answer: Value| put(json!({"call": name, "answer": answer}));
    let topics = client.list_topics().await?;
    let found = topics.iter().find(|one| one.name == topic);
    call("list topics", json!(found.is_some()));
    call(
        "describe topic",
        json!(found.map(|one| one.partitions.len())),
    );
    put(json!({"call": "describe missing topic", "unsupported": "asking for a topic creates it"}));
    let at = partition_of(client, topic, 1).await?;
    call(
        "earliest offset",
        json!(at.get_offset(OffsetAt::Earliest).await?),
    );
    call(
        "latest offset",
        json!(at.get_offset(OffsetAt::Latest).await?),
    );
    call(
        "offset for a time",
        json!(at.get_offset(OffsetAt::Timestamp(time_of(time)?)).await?),
    );
    at.delete_records(4, 5000).await?;
    call(
        "delete records",
        json!(at.get_offset(OffsetAt::Earliest).await?),
    );
    call(
        "produce by default",
        json!(produce_by_default(client, &format!("{topic}-default")).await?),
    );
    Ok(())
}

async fn produce_by_default(client: &Client, topic: &str) -> Outcome<usize> {
    create(client, topic, 1).await?;
    let into = partition_of(client, topic, 0).await?;
    for number in 0..BY_DEFAULT {
        let record = Record {
            key: None,
            value: Some(number.to_string().into_bytes()),
            headers: BTreeMap::new(),
            timestamp: Utc::now(),
        };
        into.produce(vec![record], Compression::default()).await?;
    }
    Ok(BY_DEFAULT)
}
