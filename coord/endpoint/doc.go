// Package endpoint knows where hosts are, beyond what they announce: where this
// host's own WireGuard device sees the others, where the others see each other,
// and where they see this host.
//
// At most 3 endpoints of a member are kept, one per reporter, for 10 minutes. A
// hint adds no member and no key: it only says where else to try one that is
// certified. Of its own address a host believes what its reporters have agreed on
// for 10 seconds.
//
// It decides only: time and what the device sees are arguments, and there are no
// goroutines. An Endpoints has one owner.
package endpoint
