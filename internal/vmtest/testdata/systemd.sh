# Runs in a Debian guest as root. Each unit must become ready, without being
# root, and answer.
fail() {
	echo "FAIL: $*"
	journalctl -b --no-pager -n 60 -u skein -u skein-netstack
	exit 1
}

# An emulated processor is overloaded by what one daemon does for a moment, which would
# then refuse questions: that is not what is looked at here.
export SKEIN_OVERLOAD_ENABLED=false
for unit in skein skein-netstack; do
	mkdir -p "/run/systemd/system/$unit.service.d"
	printf '[Service]\nEnvironment=SKEIN_OVERLOAD_ENABLED=false\n' >"/run/systemd/system/$unit.service.d/emulated.conf"
done
systemctl daemon-reload

# The drop-ins were read at boot.
id skein || fail "no user skein"
getent group skein-admin >/dev/null || fail "no group skein-admin"
[ -d /run/skein-root/var/run ] || fail "no root for the unit"

useradd -m -G skein insider
useradd -m outsider
# A network manager that would configure the mesh's device too, but for the
# drop-in.
printf '[Match]\nName=under* skein*\n[Network]\nAddress=192.0.2.1/24\n' >/etc/systemd/network/10-all.network
ip link add name under0 type dummy
systemctl start systemd-networkd || fail "networkd"
# admin DEVICE: what networkd thinks of it.
admin() {
	sed -n s/^ADMIN_STATE=//p "/run/systemd/netif/links/$(cat "/sys/class/net/$1/ifindex")"
}
until [ "$(admin under0)" = configured ]; do
	[ "$(cut -d. -f1 /proc/uptime)" -lt 120 ] || fail "networkd does not configure: $(admin under0)"
	sleep 0.2
done

# healthy SOCKET: wait until the daemon finds nothing wrong. An emulated machine
# may be so slow that hosts suspect each other for a moment, and each question is a
# program that takes a second of it.
healthy() {
	tries=0
	until skein check --socket "$1"; do
		tries=$((tries + 1))
		[ $tries -lt 120 ] || return 1
		sleep 1
	done
}

# ready UNIT BACKEND CAPABILITIES: start it and look at it from outside.
ready() {
	before=$(cut -d. -f1 /proc/uptime)
	systemctl start "$1" || fail "$1 with $2 does not become ready"
	took=$(($(cut -d. -f1 /proc/uptime) - before))
	pid=$(systemctl show -P MainPID "$1")
	uid=$(stat -c %u "/proc/$pid")
	[ "$uid" != 0 ] || fail "$1 runs as root"
	caps=$(sed -n 's/^CapEff:[[:space:]]*0*//p' "/proc/$pid/status")
	[ "$caps" = "$3" ] || fail "$1 with $2 has capabilities '$caps', want '$3'"
	healthy /run/skein/skein.sock || fail "$1 with $2 is not healthy"
	[ "$(skein members --quiet -o tsv | grep -c "^\(vm\|founder\)")" = 2 ] || fail "$1 with $2 is no member: $(skein members -o tsv)"
	systemctl reload "$1" || fail "$1 with $2 does not reload"
	healthy /run/skein/skein.sock || fail "$1 with $2 is not healthy after a reload"
	[ "$(systemctl show -P MainPID "$1")" = "$pid" ] || fail "$1 with $2 ended on reload"
	echo "READY $1 $2 uid=$uid caps=$caps after $took s"
}

# chunks UNIT: run a job; its chunks are compiled to machine code.
chunks() {
	timeout 120 skein job run --wasm /vmtest/chunk.wasm --iterations 4000 --chunk 1000 --follow --quiet -o json >/tmp/job || fail "$1 runs no job"
	echo "READY $1 ran a job"
}

# Another daemon founds the cluster; the unit joins by its credential.
founder() {
	env SKEIN_STATE_DIR=/var/lib/founder SKEIN_NODE_NAME=founder SKEIN_MESH_BACKEND=netstack \
		SKEIN_MESH_LISTEN=192.0.2.1:51900 SKEIN_STATUS_SOCKET=/run/founder.sock "$@"
}
founder skein init --cluster vm || fail "init"
founder skein run 2>/run/founder.log &
healthy /run/founder.sock || fail "the founder is not up: $(tail -n 5 /run/founder.log)"
(umask 077 && skein token create --socket /run/founder.sock >/etc/credstore/skein.token) || fail "no token"

# onion UNIT: its tor lives in the same sandbox, with the keys of its onion
# address. Without a network there is nothing that it could bootstrap from.
onion() {
	mkdir -p "/etc/systemd/system/$1.service.d"
	printf '[Service]\nEnvironment=SKEIN_TOR_ENABLED=true\n' >"/etc/systemd/system/$1.service.d/tor.conf"
	systemctl daemon-reload
	systemctl restart "$1" || fail "$1 with tor does not become ready"
	tries=0
	until skein onion status -o json >/tmp/onion && grep -q '"state": *"bootstrap"' /tmp/onion && grep -q '"node": *"[a-z2-7]\{56\}\.onion"' /tmp/onion; do
		tries=$((tries + 1))
		[ $tries -lt 40 ] || fail "$1 has no tor: $(cat /tmp/onion)"
		sleep 1
	done
	grep -q '"restarts": *0' /tmp/onion || fail "$1: tor had to be started again: $(cat /tmp/onion)"
	uid=
	for pid in $(cat "/sys/fs/cgroup$(systemctl show -P ControlGroup "$1")/cgroup.procs"); do
		[ "$(cat "/proc/$pid/comm")" = tor ] && uid=$(stat -c %u "/proc/$pid")
	done
	[ -n "$uid" ] && [ "$uid" != 0 ] || fail "$1: tor runs as '$uid'"
	rm "/etc/systemd/system/$1.service.d/tor.conf"
	systemctl daemon-reload
	echo "READY $1 with tor uid=$uid $(sed -n 's/.*"version": *"\([0-9.]*\).*/\1/p' /tmp/onion | head -n 1)"
}
