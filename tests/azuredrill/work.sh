# What every run of the drill does, after its mark. WORK_TRUTH is where it keeps what it did, WORK_DIGEST the
# hash of the secret it must find, and what it is to do is in WORK_LINES, WORK_BURST, WORK_FAILS, WORK_BYTES,
# WORK_LIVE and WORK_CODE. What it prints is written down before, so that what was shown is never more.
me="$GOFER_RUN_ID.$GOFER_ATTEMPT.$GOFER_RANK"
out=$GOFER_OUTPUT_DIR

say() {
    printf '%s\n' "$1" >>"$WORK_TRUTH/$me.log"
    printf '%s\n' "$1"
}

test "$(printf %s "$CANARY" | sha256sum | cut -c 1-64)" = "$WORK_DIGEST" || exit 11
test -z "${WORK_CODE-}" || cmp work.sh "$WORK_CODE" || exit 12
test -z "${GOFER_ARG_K-}" || test "$GOFER_ARG_K" = "$((${GOFER_RUN_ID##*-} + 1))" || exit 13

if test -n "${WORK_BURST-}"; then
    burst=$(seq 1 "$WORK_BURST" | sed "s/\$/ in the burst of $me/")
    say "$burst"
fi
n=1
while test "$n" -le "$WORK_LINES"; do
    say "line $n of $me"
    test -z "${WORK_LIVE-}" || echo "$me, line $n" >"$out/live-$GOFER_RANK.ckpt"
    if test -n "${WORK_FAILS-}" && test "$GOFER_RANK" = "$((${WORLD_SIZE:-1} - 1))" && test "$((n * 2))" -ge "$WORK_LINES"; then
        mkdir "$WORK_TRUTH/$GOFER_RUN_ID.failed" 2>/dev/null && exit 7
    fi
    sleep 0.1
    n=$((n + 1))
done

if test -n "${WORK_BYTES-}"; then
    { echo "$me" && head -c "$WORK_BYTES" /dev/urandom; } >"$out/large-$GOFER_RANK.bin"
    mkdir -p "$out/a folder/$GOFER_RANK"
    echo "$me" >"$out/a folder/$GOFER_RANK/small.txt"
fi
(cd "$out" && find . -type f -path "*$GOFER_RANK*" -print0 | sort -z | xargs -0 -r sha256sum) >"$WORK_TRUTH/$me.sums.tmp"
mv "$WORK_TRUTH/$me.sums.tmp" "$WORK_TRUTH/$me.sums"
say "the end of $me"
