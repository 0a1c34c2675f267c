package descriptor

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha3"
	"fmt"
)

// The two encrypted layers differ in their name and in what else than the
// blinded key is needed to read them.
const (
	layerMiddle = "hsdir-superencrypted-data"
	layerInner  = "hsdir-encrypted-data"

	saltLen   = 16
	macLen    = 32
	cookieLen = 16
)

// layer names the keys of one encrypted layer.
type layer struct {
	name     string
	blinded  Blinded
	cookie   []byte // of client authorization, inner layer only
	subcred  Subcredential
	revision uint64
}

// keys derives what encrypts, and the MAC of ciphertext under it.
func (l layer) keys(salt []byte) (stream cipher.Stream, mac func(ciphertext []byte) [macLen]byte) {
	h := sha3.NewSHAKE256()
	for _, part := range [][]byte{l.blinded[:], l.cookie, l.subcred[:], int8s(l.revision), salt, []byte(l.name)} {
		_, _ = h.Write(part)
	}
	var key, macKey [32]byte
	var iv [16]byte
	for _, part := range [][]byte{key[:], iv[:], macKey[:]} {
		_, _ = h.Read(part)
	}
	mac = func(ciphertext []byte) [macLen]byte {
		return sum3(int8s(uint64(len(macKey))), macKey[:], int8s(uint64(len(salt))), salt, ciphertext)
	}
	return ctr(key, iv), mac
}

func (l layer) seal(plain, salt []byte) []byte {
	stream, mac := l.keys(salt)
	body := make([]byte, len(plain))
	stream.XORKeyStream(body, plain)
	sum := mac(body)
	return append(append(append(make([]byte, 0, saltLen+len(body)+macLen), salt...), body...), sum[:]...)
}

func (l layer) open(sealed []byte) ([]byte, error) {
	if len(sealed) < saltLen+macLen {
		return nil, fmt.Errorf("%w: %s of %d bytes", ErrDecrypt, l.name, len(sealed))
	}
	salt, body, sum := sealed[:saltLen], sealed[saltLen:len(sealed)-macLen], sealed[len(sealed)-macLen:]
	stream, mac := l.keys(salt)
	if want := mac(body); !hmac.Equal(want[:], sum) {
		return nil, fmt.Errorf("%w: %s: wrong key, or changed on the way", ErrDecrypt, l.name)
	}
	plain := make([]byte, len(body))
	stream.XORKeyStream(plain, body)
	return plain, nil
}

func ctr(key [32]byte, iv [16]byte) cipher.Stream {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("descriptor: 32 bytes are a key of AES-256: " + err.Error())
	}
	return cipher.NewCTR(block, iv[:])
}
