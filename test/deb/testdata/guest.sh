# Runs in a Debian guest as root: the package is installed, its unit founds a
# cluster with a second daemon, hands over when it is upgraded, and goes.
fail() {
	echo "FAIL: $*"
	journalctl -b --no-pager -n 60 -u skein
	tail -n 20 /run/second.log
	exit 1
}
# soon COMMAND: it succeeds within some minutes of a machine that has much else to do. The
# guest's processor is emulated: asking it often is what the daemons would wait for.
soon() {
	tries=0
	until "$@" >/run/soon.log 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 150 ] || fail "$*: $(cat /run/soon.log)"
		sleep 2
	done
}

ip link add name under0 type dummy && ip address add 192.0.2.1/24 dev under0 && ip link set under0 up || fail "no address"
dpkg -i /vmtest/skein.deb || fail "install"
[ "$(systemctl is-enabled skein)" = disabled ] && [ "$(systemctl is-active skein)" = inactive ] || fail "installing enabled or started the unit"
# Not the program of the package, which is removed before this daemon ends.
cp /usr/bin/skein /vmtest/skein
setpriv --reuid=skein --regid=skein --clear-groups skein init --cluster vm || fail "init"
# One emulated processor is overloaded by what a cluster does when it begins: it would give the lease away.
sed -i '/^\[overload\]/,/^enabled/s/^enabled = true/enabled = false/' /etc/skein/skein.toml
skein config show -o tsv | grep -q '^overload.enabled.*false' || fail "no line of [overload] to change"
systemctl enable --now skein || fail "start"
soon skein check
skein status || fail "status"
index=$(cat /sys/class/net/skein0/ifindex) || fail "no device"

(umask 077 && skein token create >/run/join.token) || fail "no token"
env SKEIN_OVERLOAD_ENABLED=false SKEIN_STATE_DIR=/var/lib/second SKEIN_NODE_NAME=second SKEIN_MESH_BACKEND=netstack SKEIN_MESH_LISTEN=192.0.2.1:51900 \
	SKEIN_STATUS_SOCKET=/run/second.sock /vmtest/skein run --join @/run/join.token >/run/second.log 2>&1 &
second=$!
voters() { [ "$(skein lease voters -o tsv | cut -f 4 | grep -c yes)" = 2 ]; }
soon voters
soon skein check
soon /vmtest/skein check --socket /run/second.sock
echo "READY installed"

sed -i 's/^zone = ""/zone = "east"/' /etc/skein/skein.toml
terms() { # those of which an awk expression is true
	/vmtest/skein lease history --socket /run/second.sock -o tsv >/run/history || fail "history"
	awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR > 1 && ('"$1"') { found = 1 } END { exit !found }' /run/history
}
vm_holds() {
	terms '$at["HOLDER"] == "vm" && $at["ENDED"] == ""' && return
	/vmtest/skein lease step-down --socket /run/second.sock
	return 1
}
handed() { terms '$at["HOLDER"] == "vm" && $at["CAUSE"] == "shutdown" && $at["SUCCESSOR"] == "second"'; }
# A host that stands still, as on a machine that has much else to do, loses the lease
# before it is asked to stop: then it is installed once more.
for try in 1 2 3; do
	soon vm_holds
	pid=$(systemctl show -P MainPID skein)
	dpkg --force-confold -i /vmtest/later.deb || fail "upgrade"
	[ "$(systemctl is-active skein)" = active ] || fail "the unit did not outlive the upgrade"
	[ "$(systemctl show -P MainPID skein)" != "$pid" ] || fail "the upgrade did not restart the unit"
	[ "$(cat /sys/class/net/skein0/ifindex)" = "$index" ] || fail "the device did not outlive the upgrade"
	soon skein check
	soon /vmtest/skein check --socket /run/second.sock
	if handed || ! terms '$at["HOLDER"] == "vm" && $at["CAUSE"] ~ /stood still/'; then break; fi
	echo "$try: vm stood still, and had lost the lease when it was upgraded"
done
handed || fail "the upgrade did not hand over: $(cat /run/history)"
skein config show -o tsv | grep -q '^node.zone.*east' || fail "the upgrade lost a change of the configuration"
echo "READY upgraded"

dpkg --remove skein || fail "remove"
[ "$(systemctl is-active skein)" != active ] || fail "the daemon outlived the program"
[ ! -e /sys/class/net/skein0 ] || fail "the device outlived the program"
[ -e /var/lib/skein/identity.json ] || fail "removal took the state"
dpkg --purge skein || fail "purge"
for left in /var/lib/skein /var/lib/private/skein /etc/skein /run/skein /run/skein-root /etc/systemd/system/multi-user.target.wants/skein.service; do
	[ ! -e "$left" ] && [ ! -L "$left" ] || fail "a purge leaves $left"
done
! id skein 2>/dev/null || fail "a purge leaves the user"
echo "READY purged"
kill $second
