// Package auth is what outside workers and their owners show at a gateway besides signed
// requests, which are access's: the short tokens that a gateway signs for a worker, or for a
// user who listens, and the codes by which an owner claims a worker. Values in, values out: it reads no clock and
// makes nothing random.
//
// A token (JWT, EdDSA) is signed by the key of one host's gateway, which the log names. So
// every gateway can check it, none can make one in another's name, and no host shares a
// secret with another.
package auth
