# Ends a browser whose parent is gone, however it went, and removes what it left on disk.
# The parent holds the input open and writes what there is: "group N", "process N", "folder PATH"; "gone" when these
# processes ended (their numbers may be others' soon), "nothing" when it cleaned up itself.
trap '' INT TERM HUP
groups= processes=
set --
while IFS=' ' read -r what which; do
  case $what in
    group) groups="$groups $which" ;;
    process) processes="$processes $which" ;;
    folder) set -- "$@" "$which" ;;
    gone) groups= processes= ;;
    nothing) groups= processes=; set -- ;;
  esac
done
for one in $processes; do kill -KILL "$one" 2>/dev/null; done
for one in $groups; do kill -KILL "-$one" 2>/dev/null; done
# Processes that end still write: what is there after they did goes too.
for again in 1 2 3; do
  [ $# -eq 0 ] || rm -rf -- "$@" 2>/dev/null
  sleep 0.3
done
