"""Small file systems in files, loop-mounted. Needs root; without it, skip_reason says so."""
import fcntl
import os
import struct
import subprocess

from support.node import fresh_dir

MAKE = {"ext4": ["mkfs.ext4", "-q", "-m", "0"], "xfs": ["mkfs.xfs", "-q", "-f"], "btrfs": ["mkfs.btrfs", "-q"]}

LOOP_SET_STATUS64 = 0x4C04
LOOP_GET_STATUS64 = 0x4C05


class Disk:
    """Use as a context manager: it never stays mounted."""

    def __init__(self, name, megabytes=96, kind="ext4", sector=512):
        directory = fresh_dir(name)
        self.image, self.path = directory / "image", directory / "mnt"
        self.path.mkdir()
        with open(self.image, "wb") as f:
            f.truncate(megabytes << 20)
        self.device = subprocess.run(["losetup", "-b", str(sector), "-f", "--show", str(self.image)], check=True,
                                     capture_output=True, text=True).stdout.strip()
        try:
            subprocess.run([*MAKE[kind], self.device], check=True, capture_output=True)
            subprocess.run(["mount", self.device, str(self.path)], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            subprocess.run(["losetup", "-d", self.device], check=False)
            raise

    def _limit(self, size):
        """The device ends there (0: where the file does): all beyond fails with EIO."""
        info = bytearray(232)  # struct loop_info64
        with open(self.device, "r+b", buffering=0) as device:
            fcntl.ioctl(device, LOOP_GET_STATUS64, info)
            struct.pack_into("<Q", info, 32, size)  # lo_sizelimit
            fcntl.ioctl(device, LOOP_SET_STATUS64, bytes(info))

    def break_down(self):
        """From now on the device fails."""
        self._limit(4096)

    def repair(self):
        """The device is back; nobody may have a file open."""
        subprocess.run(["umount", str(self.path)], check=True)
        self._limit(0)
        subprocess.run(["mount", self.device, str(self.path)], check=True)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", str(self.path)], check=False)
        subprocess.run(["losetup", "-d", self.device], check=False)
        self.image.unlink()


def skip_reason():
    if os.geteuid() != 0:
        return "not root"
    try:
        with Disk("disk_probe", 8):
            return None
    except (OSError, subprocess.CalledProcessError) as e:
        return f"no loop mount: {e}"
