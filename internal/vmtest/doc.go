// Package vmtest boots small virtual machines for tests that need another
// kernel or another init than this machine has: real kernel WireGuard, and
// systemd. It stands on Debian's packages alone and emulates always, so that it
// works and costs the same with and without hardware virtualisation.
//
// What a boot prints as "VMTEST rc=N" decides, not QEMU's exit code. What was
// downloaded or built is kept in a cache directory and checked by name, never
// in the repository.
//
// Goroutines: none beyond os/exec's; Boot ends with its context or its timeout.
package vmtest
