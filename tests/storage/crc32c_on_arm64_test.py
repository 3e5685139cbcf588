"""The CRC by arm64's instruction: crc32c_test.cpp is compiled for arm64, and run in QEMU.

  crc32c_on_arm64_test.py SOURCE BUILD    compiles into BUILD/tests/storage/arm64; with ccache where there is one
"""

import pathlib
import re
import shutil
import subprocess
import sys

GTEST = pathlib.Path("/usr/src/googletest/googletest")  # Debian's package has no library for arm64, but the sources.
NEEDED = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64": "qemu-user"}


def run(*command, folder):
    result = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"exit status {result.returncode}: {' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def main():
    source, build = (pathlib.Path(argument) for argument in sys.argv[1:3])
    missing = [package for program, package in NEEDED.items() if not shutil.which(program)]
    if missing:
        sys.exit(f"needs {' and '.join(missing)}: run scripts/setup test")
    folder = build / "tests/storage/arm64"
    folder.mkdir(parents=True, exist_ok=True)
    # The headers of fmt and GoogleTest are the same for each CPU. All others must be arm64's own, which are looked for first.
    compiler = [*(["ccache"] if shutil.which("ccache") else []), "aarch64-linux-gnu-g++", "-std=c++20", "-O2", "-DFMT_HEADER_ONLY",
                f"-I{source}", f"-I{GTEST}", "-idirafter", "/usr/include"]
    sources = [GTEST / "src/gtest-all.cc", GTEST / "src/gtest_main.cc", source / "storage/crc32c.cpp", source / "tests/storage/crc32c_test.cpp"]
    objects = []
    for file in sources:
        objects.append(folder / f"{file.stem}.o")
        run(*compiler, "-c", file, "-o", objects[-1], folder=folder)
    run("aarch64-linux-gnu-g++", "-static", *objects, "-o", "crc32c_test", folder=folder)
    # This CPU has the instruction. QEMU writes down the code that was run.
    output = run("qemu-aarch64", "-cpu", "cortex-a53", "-d", "in_asm", "-D", "code", "./crc32c_test", folder=folder)
    print(output)
    if not re.search(r"\[  PASSED  \] [1-9]", output):
        sys.exit("no test ran")
    if "crc32cx" not in (folder / "code").read_text():
        sys.exit("crc32c() did not use the instruction")


main()
