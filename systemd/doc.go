// Package systemd tells the service manager how the daemon is: ready,
// stopping, one line of status, alive. Without a service manager every call
// does nothing. What the service manager reads lives here too:
//
//	skein.service             /usr/lib/systemd/system/  kernel and TUN mesh
//	skein-netstack.service    /usr/lib/systemd/system/  without privileges
//	skein.sysusers            /usr/lib/sysusers.d/skein.conf
//	skein.tmpfiles            /usr/lib/tmpfiles.d/skein.conf
//	05-skein.network          /usr/lib/systemd/network/
//	skein-networkmanager.conf /usr/lib/NetworkManager/conf.d/skein.conf
//
// Non-goals: socket activation, reading the journal, talking on the bus.
//
// Goroutines: none. Whoever proves that the daemon lives calls Watchdog; there
// is deliberately no timer here, because a timer proves nothing.
package systemd
