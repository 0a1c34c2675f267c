package h1

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"syscall"

	"github.com/skein-project/skein/load"
)

// DialClass is the class of what kept a connection from being made.
func DialClass(err error) load.Class {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return load.Refused
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.ENOBUFS):
		return load.Generator
	case errors.Is(err, syscall.ECONNRESET):
		return load.Reset
	case errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded):
		return load.ConnectTimeout
	}
	return load.Unreachable
}

// TLSClass is the class of what broke a handshake.
func TLSClass(err error) load.Class {
	_, bad := errors.AsType[*tls.CertificateVerificationError](err)
	_, name := errors.AsType[x509.HostnameError](err)
	if bad || name {
		return load.TLSVerify
	}
	return load.TLS
}
