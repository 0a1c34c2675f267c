// Package deb holds the tests of the Debian package: that two builds are equal,
// that lintian finds nothing, that it can be installed, upgraded, removed and
// purged in a Debian of its own, and that its unit runs in a guest with systemd,
// where an upgrade hands the lease over. `make package-test` runs them alone.
//
// Non-goals: the units' own behaviour (internal/vmtest) and other systems'
// packages.
//
// Goroutines: none beyond os/exec's.
package deb
