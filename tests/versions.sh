#!/usr/bin/env bash
# Test the library with other interpreters and versions of torch, as far as they can be had here.
#
#   bash tests/versions.sh ["PYTHON TORCH" ...]      TORCH may be "newest"
#
# Each pair gets an environment of its own in build/versions, with the base dependencies and pytest
# alone. A pair that cannot be installed is reported and is no error; one whose tests fail is.
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- "3.11 2.4.1" "3.11 newest" "3.12 2.13.0" "3.13 2.13.0"
TESTS=(tests/contract/test_methods.py tests/contract/test_addons.py tests/reference tests/unit/update/test_update.py)

# An interpreter by its version: on the path, or one of pyenv's.
interpreter() {
    local each
    for each in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        "$each" -c '' 2>/dev/null && { echo "$each"; return; }
    done
    return 1
}

failed=0
for pair in "$@"; do
    read -r version torch <<<"$pair"
    place="build/versions/python$version-torch-$torch"
    wanted=torch; [ "$torch" = newest ] || wanted="torch==$torch"
    if ! python=$(interpreter "$version"); then
        echo "Python $version, torch $torch: no such interpreter here"
        continue
    fi
    mkdir -p build/versions
    if ! { "$python" -m venv "$place" && "$place/bin/python" -m pip install --quiet \
        --disable-pip-version-check "$wanted" . pytest pytest-timeout hypothesis; } \
        >"$place.log" 2>&1; then
        echo "Python $version, torch $torch: cannot be installed here, see $place.log"
        continue
    fi
    found=$("$place/bin/python" -c 'import torch; print(torch.__version__)')
    if OMP_NUM_THREADS=1 "$place/bin/python" -m pytest -q -p no:cacheprovider "${TESTS[@]}" \
        >>"$place.log" 2>&1; then
        echo "Python $version, torch $found: $(tail -1 "$place.log")"
    else
        echo "Python $version, torch $found: FAILED, see $place.log"
        failed=1
    fi
done
exit $failed
