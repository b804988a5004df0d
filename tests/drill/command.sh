#!/bin/sh
# What every run of the drill executes: `command.sh NAP END [stray|stubborn]`. NAP is in seconds, or `hold` until the
# drill lets go. `once:` before END is for the first attempt alone.
# Its first act is the mark that is counted; `done` is its last before it ends as it was told to.
# The marks lie beside this script, so that a start is counted even if the run has lost its environment.
mark="${0%/*}/marks/$GOFER_RUN_ID.$GOFER_ATTEMPT.$GOFER_RANK"
echo start >>"$mark"
[ "$DRILL_SEAL" = kept ] || exit 99
case $3 in
stray) setsid sh -c 'trap "" TERM HUP INT; sleep 600' & ;;
stubborn) trap '' TERM ;;
esac
if [ "$1" = hold ]; then
    while [ ! -e "${0%/*}/released" ]; do sleep 0.05; done
elif [ "$1" != 0 ]; then
    sleep "$1"
fi
echo done >>"$mark"
trap - TERM
end=$2
case $end in
once:*) [ "$GOFER_ATTEMPT" = 1 ] && end=${end#once:} || end=0 ;;
esac
case $end in
SIG*) kill -"${end#SIG}" $$ ;;
esac
exit "$end"
