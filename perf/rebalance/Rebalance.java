// Consumers of one KIP-848 group on many partitions that are all fed: how long until the group is stable after one
// joins and after one leaves, and the longest silence of a partition that stayed where it was.
// Rebalance BROKERS PARTITIONS MEMBERS ROUNDS: one line of JSON per event.
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

public class Rebalance {
    static final int PER_SECOND = 10; // Records per partition.
    static String brokers;
    static int partitions;
    static AtomicIntegerArray owner; // -1: nobody.
    static AtomicLongArray last;     // When its last record was received, ns.
    static AtomicLongArray gap;      // Longest silence of a partition that stayed.
    static final AtomicLong changed = new AtomicLong();
    static volatile boolean isOver;

    static class Member implements Runnable, ConsumerRebalanceListener {
        final int number;
        final AtomicInteger count = new AtomicInteger();
        volatile boolean isLeaving;
        volatile long subscribed; // When it did, with a connection and the topic's metadata.
        final Thread thread = new Thread(this);

        Member(int number) {
            this.number = number;
            thread.start();
        }

        public void onPartitionsAssigned(Collection<TopicPartition> taken) {
            for (TopicPartition p : taken) {
                owner.set(p.partition(), number);
                last.set(p.partition(), 0);
            }
            count.addAndGet(taken.size());
            changed.set(System.nanoTime());
        }

        public void onPartitionsRevoked(Collection<TopicPartition> given) {
            for (TopicPartition p : given) {
                owner.compareAndSet(p.partition(), number, -1);
                last.set(p.partition(), 0);
            }
            count.addAndGet(-given.size());
            changed.set(System.nanoTime());
        }

        public void run() {
            Properties config = new Properties();
            config.put("bootstrap.servers", brokers);
            config.put("group.id", "g");
            config.put("group.protocol", "consumer");
            config.put("auto.offset.reset", "latest");
            config.put("fetch.max.wait.ms", "100");
            try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.partitionsFor("t");
                subscribed = System.nanoTime();
                consumer.subscribe(List.of("t"), this);
                while (!isLeaving && !isOver) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(50));
                    long now = System.nanoTime();
                    for (TopicPartition p : records.partitions()) {
                        long before = last.getAndSet(p.partition(), now);
                        if (before != 0 && now - before > gap.get(p.partition())) {
                            gap.set(p.partition(), now - before);
                        }
                    }
                }
            }
        }
    }

    static boolean isBalanced(List<Member> members) {
        int sum = 0, least = Integer.MAX_VALUE, most = 0;
        for (Member m : members) {
            int n = m.count.get();
            sum += n;
            least = Math.min(least, n);
            most = Math.max(most, n);
        }
        return sum == partitions && most - least <= 1;
    }

    // Until nothing changed for `quiet` ms; returns when the last change was.
    static long settle(List<Member> members, long quiet) throws Exception {
        long limit = System.nanoTime() + 120_000_000_000L;
        while (!isBalanced(members) || System.nanoTime() - changed.get() < quiet * 1_000_000) {
            if (System.nanoTime() > limit) {
                throw new Exception("the group does not settle");
            }
            Thread.sleep(5);
        }
        return changed.get();
    }

    static int[] owners() {
        int[] all = new int[partitions];
        for (int p = 0; p < partitions; p++) {
            all[p] = owner.get(p);
            gap.set(p, 0);
        }
        return all;
    }

    static double longestGap(int[] before) {
        long longest = 0;
        for (int p = 0; p < partitions; p++) {
            if (before[p] == owner.get(p)) {
                longest = Math.max(longest, gap.get(p));
            }
        }
        return longest / 1e6;
    }

    static void report(String event, int round, double ms, double wholeMs, int[] before) {
        int moved = 0;
        for (int p = 0; p < partitions; p++) {
            moved += before[p] == owner.get(p) ? 0 : 1;
        }
        System.out.printf(Locale.ROOT, "{\"event\": \"%s\", \"round\": %d, \"ms\": %.0f, \"whole_ms\": %.0f, \"moved\": %d, \"gap_ms\": %.0f}%n",
                          event, round, ms, wholeMs, moved, longestGap(before));
        System.out.flush();
    }

    public static void main(String[] args) throws Exception {
        brokers = args[0];
        partitions = Integer.parseInt(args[1]);
        int count = Integer.parseInt(args[2]), rounds = Integer.parseInt(args[3]);
        owner = new AtomicIntegerArray(partitions);
        last = new AtomicLongArray(partitions);
        gap = new AtomicLongArray(partitions);
        for (int p = 0; p < partitions; p++) {
            owner.set(p, -1);
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", brokers))) {
            admin.createTopics(List.of(new NewTopic("t", partitions, (short) 1))).all().get();
        }
        Properties config = new Properties();
        config.put("bootstrap.servers", brokers);
        config.put("linger.ms", "20");
        config.put("acks", "1");
        var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        Thread feeder = new Thread(() -> {
            long next = System.nanoTime();
            while (!isOver) {
                for (int p = 0; p < partitions; p++) {
                    producer.send(new ProducerRecord<>("t", p, null, new byte[8]));
                }
                next += 1_000_000_000L / PER_SECOND;
                long left = next - System.nanoTime();
                if (left > 0) {
                    java.util.concurrent.locks.LockSupport.parkNanos(left);
                }
            }
        });
        feeder.start();
        List<Member> members = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            members.add(new Member(i));
        }
        settle(members, 3000);
        for (int round = 0; round < rounds; round++) {
            int[] before = owners();
            Thread.sleep(7000);
            report("quiet", round, 0, 0, before);
            before = owners();
            long began = System.nanoTime();
            Member joiner = new Member(count + round);
            members.add(joiner);
            long ended = settle(members, 1500);
            report("join", round, (ended - joiner.subscribed) / 1e6, (ended - began) / 1e6, before);
            Thread.sleep(7000);
            before = owners();
            Member leaver = members.remove(members.size() - 1);
            began = System.nanoTime();
            leaver.isLeaving = true;
            ended = settle(members, 1500);
            report("leave", round, (ended - began) / 1e6, (ended - began) / 1e6, before);
            leaver.thread.join();
        }
        isOver = true;
        for (Member m : members) {
            m.thread.join();
        }
        feeder.join();
        producer.close();
    }
}
