package centrifugo

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Bounds of a secret.
const (
	minSecret  = 20 // characters
	maxSecrets = 4 << 10
	rereadTime = 5 * time.Second
)

// ReadSecrets reads a file of secrets, one in a line, at most most of them.
func ReadSecrets(file string, most int) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecrets+1))
	if err != nil {
		return nil, err
	}
	list := strings.Fields(string(text))
	switch {
	case len(text) > maxSecrets:
		return nil, fmt.Errorf("%s is longer than %d bytes", file, maxSecrets)
	case len(list) == 0:
		return nil, fmt.Errorf("%s is empty", file)
	case len(list) > most:
		return nil, fmt.Errorf("%s has %d lines, at most %d are allowed", file, len(list), most)
	}
	for i, s := range list {
		if len(s) < minSecret {
			return nil, fmt.Errorf("%s: line %d has %d characters, at least %d are needed: `openssl rand -hex 32` makes good ones", file, i+1, len(s), minSecret)
		}
	}
	return list, nil
}

// secrets are those of a file, which is read again every now and then: they may be changed
// while this runs.
type secrets struct {
	file string
	most int
	now  func() time.Duration

	mu   sync.Mutex // for what follows
	list []string
	read time.Duration // when; 0: never
}

// get returns them; those that were read last if the file cannot be read now.
func (s *secrets) get() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.list != nil && now-s.read < rereadTime {
		return s.list, nil
	}
	list, err := ReadSecrets(s.file, s.most)
	if err != nil && s.list == nil {
		return nil, err
	}
	if err == nil {
		s.list = list
	}
	s.read = now
	return s.list, nil
}

// has reports whether one of them is text. How long that takes tells nothing of them.
func (s *secrets) has(text string) bool {
	list, err := s.get()
	if err != nil {
		return false
	}
	got, ok := sha256.Sum256([]byte(text)), 0
	for _, one := range list {
		want := sha256.Sum256([]byte(one))
		ok |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return ok == 1
}
