# Sourced by the scripts beside it: one line a step on stderr, and everything a step said when it fails.

fail() { # fail WHAT HINT
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

step() { # step WHAT COMMAND...
    local what=$1 log began=$SECONDS
    shift
    log=$(mktemp)
    printf '  %s ... ' "$what" >&2
    if "$@" >"$log" 2>&1 </dev/null; then
        printf 'done (%d s)\n' $((SECONDS - began)) >&2
        rm -f "$log"
    else
        printf 'failed\n\n' >&2
        cat "$log" >&2
        rm -f "$log"
        printf '\nerror: `%s` failed while trying to %s\n' "$*" "$what" >&2
        exit 1
    fi
}

can_install() { # root on a Debian-like machine
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

apt_install() { # the package lists of a fresh machine are empty or old, so they are fetched first
    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}
