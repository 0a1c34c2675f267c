# Runs in a Debian guest as root. Each unit must become ready, without being
# root, and answer.
fail() {
	echo "FAIL: $*"
	journalctl -b --no-pager -n 60 -u skein -u skein-netstack
	exit 1
}

# The drop-ins were read at boot.
id skein || fail "no user skein"
getent group skein-admin >/dev/null || fail "no group skein-admin"
[ -d /run/skein-root/var/run ] || fail "no root for the unit"

chmod 0666 /dev/net/tun # udev's work, which is not here
useradd -m -G skein insider
useradd -m outsider
ip link add name under0 type dummy
ip address add 192.0.2.1/24 dev under0
ip link set under0 up

# Another daemon founds the cluster; the unit joins by its credential.
founder() {
	env SKEIN_STATE_DIR=/var/lib/founder SKEIN_NODE_NAME=founder SKEIN_MESH_BACKEND=netstack \
		SKEIN_MESH_LISTEN=192.0.2.1:51900 SKEIN_STATUS_SOCKET=/run/founder.sock "$@"
}
founder skein init --cluster vm || fail "init"
founder skein run 2>/run/founder.log &
until skein check --socket /run/founder.sock; do
	kill -0 $! || fail "the founder ended: $(tail -n 5 /run/founder.log)"
	sleep 0.2
done
(umask 077 && skein token create --socket /run/founder.sock >/etc/credstore/skein.token) || fail "no token"

# ready UNIT BACKEND: start it and look at it from outside.
ready() {
	before=$(cut -d. -f1 /proc/uptime)
	systemctl start "$1" || fail "$1 with $2 does not become ready"
	pid=$(systemctl show -P MainPID "$1")
	uid=$(stat -c %u "/proc/$pid")
	[ "$uid" != 0 ] || fail "$1 runs as root"
	caps=$(sed -n 's/^CapEff:[[:space:]]*0*//p' "/proc/$pid/status")
	[ "$caps" = "$3" ] || fail "$1 with $2 has capabilities '$caps', want '$3'"
	until skein check; do
		[ $(($(cut -d. -f1 /proc/uptime) - before)) -lt 60 ] || fail "$1 with $2 does not answer"
		sleep 0.2
	done
	[ "$(skein members --quiet -o tsv | grep -c alive)" = 2 ] || fail "$1 with $2 is no member: $(skein members -o tsv)"
	took=$(($(cut -d. -f1 /proc/uptime) - before))
	systemctl reload "$1" || fail "$1 with $2 does not reload"
	skein status || fail "$1 with $2 does not answer after a reload"
	[ "$(systemctl show -P MainPID "$1")" = "$pid" ] || fail "$1 with $2 ended on reload"
	echo "READY $1 $2 uid=$uid caps=$caps after $took s"
}

# chunks UNIT: run a job; its chunks are compiled to machine code.
chunks() {
	timeout 120 skein job run --wasm /vmtest/chunk.wasm --iterations 4000 --chunk 1000 --follow --quiet -o json >/tmp/job || fail "$1 runs no job"
	echo "READY $1 ran a job"
}
