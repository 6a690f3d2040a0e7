#!/usr/bin/env bash
# Makes .venv and installs the package into it, editable, with the versions of constraints.txt.
#
#   scripts/setup-venv.sh runtime   what a user of the package has, and pytest: components of one's own have tests
#   scripts/setup-venv.sh dev       that, the developer's tools and the system packages of the tests
#
# PYTHON chooses the interpreter; by default the first of python3, python3.13, python3.12, python3.11 that is new enough.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

what=${1:?"Say which set-up: runtime or dev."}
case $what in
runtime) targets=(--editable . pytest) ;;
dev) targets=(--editable ".[dev]") ;;
*)
    echo "Unknown set-up '$what': use runtime or dev." >&2
    exit 2
    ;;
esac

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
can_make_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

# An earlier set-up that was interrupted, or one whose interpreter is gone, is made anew.
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    if [[ -z $python && -z ${PYTHON:-} ]]; then
        scripts/setup-system.sh python3 python3-venv
        python=$(find_python)
    fi
    if [[ -z $python ]]; then
        echo "No Python 3.11 or newer was found as '${PYTHON:-python3}': install one, or name it with 'make PYTHON=/path/to/python'." >&2
        exit 1
    fi
    if ! can_make_venv "$python"; then
        # Debian ships the standard library's venv in a package of its own.
        scripts/setup-system.sh "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    fi
    if ! can_make_venv "$python"; then
        echo "'$python' has no venv module, so .venv cannot be made: install it (on Debian the package python3-venv) and run the command again." >&2
        exit 1
    fi
    "$python" -m venv --clear .venv
fi

if [[ $what == dev ]]; then scripts/setup-system.sh; fi

.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "${targets[@]}"
touch .venv/.stamp-runtime
if [[ $what == dev ]]; then touch .venv/.stamp-dev; fi
