ready skein-netstack netstack ""
as() {
	user=$1
	shift
	setpriv --reuid "$user" --regid "$user" --init-groups "$@"
}
# Root, and members of the unit's group, may change things; nobody else gets in.
skein token create >/dev/null || fail "root may not invite"
as insider skein token create >/dev/null || fail "a member of the group may not invite"
as outsider skein token create 2>/dev/null && fail "an outsider may invite"
chunks skein-netstack
onion skein-netstack
systemctl stop skein-netstack || fail "stop"
