#!/usr/bin/env bash
# Installs Debian packages where that is possible; elsewhere one sentence says what is missing.
#
#   scripts/setup-system.sh              the packages that the tests use (the list below)
#   scripts/setup-system.sh PACKAGE...   these packages
#
# It never fails: what cannot be installed is skipped by the tests that need it, and they say so.
set -euo pipefail

# Add a Debian package here when a test needs it, with the reason.
test_packages=(
    bubblewrap  # the sandbox in which programs of models run (tests/sandbox)
    curl        # the examples of docs/web.md are run as they stand
    chromium    # the tests open the HTML page of a run in a real browser (tests/browser.py)
    xvfb        # the desktop of the environment computer, with
    openbox     # its window manager and
    python3-tk  # programs with windows, which the tests drive (tests/environments/computer)
    catdoc      # texts of Word before 2007 (tests/files)
    ffmpeg      # length, streams and frames of recordings (tests/files)
    vim         # programs that draw on a terminal: an editor,
    less        # a pager,
    procps      # top,
    gdb         # and a debugger (tests/sandbox/test_look.py)
    make        # what the tasks of examples/terminal-tasks build with, and
    default-jdk-headless  # a Java program (tests/systems/test_terminal_tasks.py)
    iproute2    # a machine whose cable is cut: a network namespace (tests/cluster/test_cable.py)
    espeak-ng   # speaks the recording of an example (examples/team/audio.py)
)

if (($# > 0)); then wanted=("$@"); else wanted=(${test_packages[@]+"${test_packages[@]}"}); fi

is_installed() { dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

missing=()
for package in ${wanted[@]+"${wanted[@]}"}; do
    is_installed "$package" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then exit 0; fi

if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null && [[ -r /etc/debian_version ]]; then
    export DEBIAN_FRONTEND=noninteractive
    echo "Installing with apt-get: ${missing[*]}"
    if ! { apt-get update -qq && apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null; }; then
        echo "apt-get could not install: ${missing[*]}" >&2
    fi
else
    echo "Could not install the Debian packages (${missing[*]}), which needs root on Debian: install them or their equivalents yourself." >&2
fi
