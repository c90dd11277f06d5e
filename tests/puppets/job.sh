# A job of a busy walk: `job.sh NAME SECONDS MANNER OUT FILE...`, in the directory that it reads from.
#
# Hashes what it reads, when it begins and when it ends, into OUT: both are the same unless it was
# disturbed. MANNER: `deaf` to the signal that asks it to end, or it then still `writes`, or it is
# a `server`, which stays; what it wrote stands until there is more. Fails when a file that it read holds an F.
name=$1 seconds=$2 manner=$3 out=$4
shift 4

look() {
    for file in "$@"; do
        cat "$file" 2>/dev/null || echo none
    done
    echo "$WORD"
}

case $manner in
deaf) trap '' TERM ;;
writes) trap 'echo late > "$out"; sleep 0.1; echo later > "$out"; exit 1' TERM ;;
esac

mkdir -p "$(dirname "$out")"
first=$(look "$@")
echo "$name $$" >>"$LOGS/$name"
[ "$manner" = server ] || echo half >"$out"
sleep "$seconds"
second=$(look "$@")
case $first$second in
*F*) exit 3 ;;
esac
echo "$(echo "$first" | md5sum | cut -c1-8) $(echo "$second" | md5sum | cut -c1-8)" >"$out.$$"
mv "$out.$$" "$out"
[ "$manner" != server ] || { echo READY; exec sleep 86400; }
