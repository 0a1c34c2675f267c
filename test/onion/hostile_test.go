package onion

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/onionnet"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

// TestHostile is a member that sends what it must not, and one that is an
// instance of somebody else's address.
func TestHostile(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.start("a", "b")
	p := s.publish("a", 1)
	s.awaitPublished(p, "a", "b")

	text := func(name string) []byte { return s.roster.Texts()[nodeID(name)].Text }
	old, version := text("b"), p.Status().Version
	if err := s.hosts["b"].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.until("descriptor of the new tor", func() error {
		if bytes.Equal(text("b"), old) {
			return errors.New("not yet")
		}
		return nil
	})
	s.awaitNew(p, version)
	good := text("b")
	corrupt := bytes.Clone(good)
	corrupt[len(corrupt)/2] ^= 1
	for _, c := range []struct {
		name string
		text []byte
		want error
	}{
		{"corrupt", corrupt, nil},
		{"truncated", good[:len(good)/2], descriptor.ErrSyntax},
		{"oversized", bytes.Repeat([]byte("x\n"), descriptor.MaxSize), descriptor.ErrTooLarge},
		{"foreign", text("a"), descriptor.ErrForeign},
		{"replayed", old, publisher.ErrReplayed},
	} {
		before := refusals(p)
		s.roster.Set("b", s.hosts["b"].Address, c.text)
		s.until(c.name, func() error {
			more := refusals(p)[len(before):]
			for _, err := range more {
				if c.want == nil || errors.Is(err, c.want) {
					t.Logf("%s: %v", c.name, err)
					return nil
				}
			}
			return fmt.Errorf("refused: %v, want %v", more, c.name)
		})
		s.roster.Set("b", s.hosts["b"].Address, good)
	}
	s.awaitPublished(p, "a", "b")
	client := s.clients("client", 1)
	s.judge("with a hostile member", s.visits(client, 4))

	s.wrongMaster(p)
}

// wrongMaster adds a host whose ob_config names another address: it is noticed
// at the first client that is sent there.
func (s *stage) wrongMaster(p *onionnet.Publisher) {
	s.t.Helper()
	s.startWith([]descriptor.Address{descriptor.NewSecretKey([32]byte{1}).Address()}, "w")
	noticed := make(chan string, 1)
	sub := s.hosts["w"].Tor.Subscribe(64)
	defer sub.Close()
	go func() {
		for {
			e, err := sub.Next(s.t.Context())
			if err != nil {
				return
			}
			if w, ok := e.(tor.WrongMaster); ok {
				noticed <- w.Log
				return
			}
		}
	}()
	s.awaitPublished(p, "a", "b", "w")
	began := time.Now()
	clients := s.clients("probe", 3)
	running := s.drive(clients, 2)
	select {
	case line := <-noticed:
		s.t.Logf("wrong master noticed: %s", line)
		bound(s.t, "wrong master noticed", time.Since(began), time.Minute)
	case <-time.After(2 * limit):
		s.t.Error("a host with the wrong master was not noticed")
	}
	s.roster.Weigh("w", 0)
	s.awaitPublished(p, "a", "b")
	running.end()
	s.judge("without the wrong host", s.visits(clients[:1], 3))
}

func refusals(p *onionnet.Publisher) (all []error) {
	for _, r := range p.Reports() {
		if r.Refused != nil {
			all = append(all, r.Refused.Err)
		}
	}
	return all
}

// awaitNew waits until clients find a descriptor that is newer than a version.
func (s *stage) awaitNew(p *onionnet.Publisher, version uint64) {
	s.t.Helper()
	s.until(fmt.Sprintf("a descriptor newer than %d", version), func() error {
		if st := p.Status(); st.Version <= version || found(p.Reports(), st.Version) < 2 {
			return fmt.Errorf("version %d", st.Version)
		}
		return nil
	})
}
