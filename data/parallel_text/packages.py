"""Debian packages by name, unpacked without root: nothing is installed."""
import glob
import os
import subprocess
import tempfile


def fetch(name, folder):
    """The root of the unpacked package, as a folder beneath `folder`; fetched once."""
    root = os.path.join(folder, name)
    if os.path.isdir(root):
        return root
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        subprocess.run(["apt-get", "--quiet", "--quiet", "download", name], cwd=work, check=True)
        (archive,) = glob.glob(os.path.join(glob.escape(work), "*.deb"))
        unpacked = os.path.join(work, "root")
        subprocess.run(["dpkg-deb", "-x", archive, unpacked], check=True)
        os.rename(unpacked, root)
    return root
