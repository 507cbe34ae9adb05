"""What the machine itself can do, measured before and after the rows: the disk by fio, the loopback by an echo."""
import bench

PERCENTILES = (("p50", "50.000000"), ("p99", "99.000000"), ("p999", "99.900000"))


def measure(seconds):
    bench.SCRATCH.mkdir(parents=True, exist_ok=True)
    floors = {}
    job = bench.fio("flush", seconds, "--rw=write", "--bs=4k", "--iodepth=1", "--ioengine=io_uring", "--fdatasync=1")
    write, flush = job["write"]["clat_ns"]["percentile"], job["sync"]["lat_ns"]["percentile"]
    echo = bench.echo_us(seconds)
    for name, key in PERCENTILES:
        floors[f"flush_{name}_us"] = flush[key] / 1000
        floors[f"write_flush_{name}_us"] = (write[key] + flush[key]) / 1000
        floors[f"echo_{name}_us"] = echo[int((len(echo) - 1) * float(key) / 100)]
        floors[f"ack_{name}_us"] = floors[f"write_flush_{name}_us"] + floors[f"echo_{name}_us"]
    job = bench.fio("stream", seconds, "--rw=write", "--bs=128k", "--iodepth=16", "--ioengine=io_uring")
    floors["disk_MB_per_s"] = job["write"]["bw_bytes"] / 1e6
    return floors
