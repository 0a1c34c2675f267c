# The unit with the capability, once with each device.
ready skein kernel 1000
ip -d link show skein0 | grep -q wireguard || fail "no kernel device"
chunks skein
[ "$(admin skein0)" = unmanaged ] || fail "networkd manages the device: $(admin skein0)"
index=$(cat /sys/class/net/skein0/ifindex)
systemctl restart skein || fail "restart"
[ "$(cat /sys/class/net/skein0/ifindex)" = "$index" ] || fail "the device did not outlive the restart"
onion skein
systemctl stop skein || fail "stop"
[ -e /sys/class/net/skein0 ] || fail "the device did not outlive the stop"
skein net cleanup || fail "net cleanup"
[ -e /sys/class/net/skein0 ] && fail "net cleanup left the device"
skein net cleanup || fail "net cleanup is not idempotent"

mkdir -p /etc/systemd/system/skein.service.d
printf '[Service]\nEnvironment=SKEIN_MESH_BACKEND=tun\n' >/etc/systemd/system/skein.service.d/tun.conf
systemctl daemon-reload
ready skein tun 1000
ip -d link show skein0 | grep -q tun || fail "no TUN device"
[ -S /run/wireguard/skein0.sock ] || fail "no socket for wg"
systemctl stop skein || fail "stop"
[ -e /sys/class/net/skein0 ] && fail "the TUN device outlived its daemon"
true
