package certfile

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"os"
	"time"
)

// maxBytes bounds what is read: a chain is of some kilobytes.
const maxBytes = 1 << 20

// Error says what is wrong with which file.
type Error struct {
	OfKey     bool // the file of the key, not that of the certificate
	Msg, Hint string
}

// Error implements error.
func (e *Error) Error() string { return e.Msg + ": " + e.Hint }

// Load reads PEM files of a certificate with its chain, and of its key. All errors are
// of type *Error.
func Load(cert, key string, now time.Time) (tls.Certificate, error) {
	chain, err := read(cert)
	if err != nil {
		return tls.Certificate{}, &Error{Msg: err.Error(), Hint: "the daemon's user must be able to read it"}
	}
	secret, err := read(key)
	if err != nil {
		return tls.Certificate{}, &Error{OfKey: true, Msg: err.Error(), Hint: "the daemon's user must be able to read it"}
	}
	if !holds(chain, func(kind string) bool { return kind == "CERTIFICATE" }) {
		return tls.Certificate{}, &Error{Msg: cert + " holds no certificate", Hint: "give a PEM file with the host's certificate first and its chain after it"}
	}
	if !holds(secret, func(kind string) bool {
		return kind == "PRIVATE KEY" || bytes.HasSuffix([]byte(kind), []byte(" PRIVATE KEY"))
	}) {
		return tls.Certificate{}, &Error{OfKey: true, Msg: key + " holds no private key", Hint: "give the PEM file that belongs to " + cert}
	}
	pair, err := tls.X509KeyPair(chain, secret)
	if err != nil {
		return tls.Certificate{}, &Error{OfKey: true, Msg: fmt.Sprintf("%s with the key in %s: %s", cert, key, err), Hint: "give a certificate and the key that it was issued for"}
	}
	switch leaf := pair.Leaf; {
	case now.After(leaf.NotAfter):
		return tls.Certificate{}, &Error{Msg: fmt.Sprintf("%s ended %s", cert, leaf.NotAfter.UTC().Format(time.RFC3339)), Hint: "have it renewed"}
	case now.Before(leaf.NotBefore):
		return tls.Certificate{}, &Error{Msg: fmt.Sprintf("%s begins %s", cert, leaf.NotBefore.UTC().Format(time.RFC3339)), Hint: "is the clock of this host right?"}
	}
	return pair, nil
}

func read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxBytes {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", file, maxBytes)
	}
	return os.ReadFile(file)
}

// holds reports whether a block of a kind is in text.
func holds(text []byte, of func(kind string) bool) bool {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return false
		}
		if of(block.Type) {
			return true
		}
		text = rest
	}
}
