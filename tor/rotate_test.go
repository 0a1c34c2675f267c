package tor

import (
	"crypto/sha3"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/publisher/descriptor"
)

// pointAt is an introduction point at the n-th relay.
func pointAt(n uint32) descriptor.Point {
	p := descriptor.Point{AuthKeyType: 1, EncKeyType: 1}
	binary.BigEndian.PutUint32(p.Relay[:], n)
	p.Links = string(slices.Concat([]byte{3, 0, 6, 10, 0, 0, byte(n), 0x23, 0x29, 2, 20}, p.Relay[:], []byte{3, 32}, make([]byte, 32)))
	p.OnionKey = sha3.Sum256(p.Relay[:])
	p.AuthKey, p.EncKey, p.EncCert = sha3.Sum256(p.OnionKey[:]), sha3.Sum256(p.OnionKey[1:]), sha3.Sum256(p.OnionKey[2:])
	return p
}

// TestRotation: when a consensus brings a new shared random value the points of
// the descriptor that tor is about to give up close their circuits, those of the
// next one and of other services stay; no other consensus changes anything.
func TestRotation(t *testing.T) {
	key := descriptor.NewSecretKey([32]byte{7})
	address := key.Address().String()
	id := strings.TrimSuffix(address, ".onion")
	var from, text string
	var done []string
	circuit := func(n, relay uint32, state, of string) string {
		return fmt.Sprintf("%d BUILT $%s~b,$%s~r PURPOSE=HS_SERVICE_INTRO HS_STATE=%s REND_QUERY=%s\r\n", n, hsdirB, pointAt(relay).Relay, state, of)
	}
	port := &fakePort{answer: func(command string, _ io.Writer) (string, bool) {
		switch name, _, _ := strings.Cut(command, " "); {
		case name == "CLOSECIRCUIT" || name == "EXTENDCIRCUIT":
			done = append(done, command)
			return "250 EXTENDED 1\r\n", true
		case command == "GETINFO circuit-status":
			return "250+circuit-status=\r\n" + circuit(1, 1, "HSSI_ESTABLISHED", id) + circuit(2, 2, "HSSI_ESTABLISHED", id) + circuit(3, 3, "HSSI_ESTABLISHED", id) +
				circuit(11, 1, "HSSI_ESTABLISHED", id) + circuit(4, 1, "HSSI_CONNECTING", id) + circuit(5, 1, "HSSI_ESTABLISHED", "other") + ".\r\n250 OK\r\n", true
		case command == "GETINFO hs/service/desc/id/"+id:
			return "250+hs/service/desc/id/" + id + "=\r\n" + strings.ReplaceAll(text, "\n", "\r\n") + ".\r\n250 OK\r\n", true
		case command == "GETINFO consensus/valid-after":
			return "250-consensus/valid-after=" + from + "\r\n250 OK\r\n", true
		case command == "GETINFO consensus/fresh-until":
			at, err := time.Parse(consensusTime, from)
			if err != nil {
				return "551 none\r\n", true
			}
			return "250-consensus/fresh-until=" + at.Add(time.Hour).Format(consensusTime) + "\r\n250 OK\r\n", true
		}
		return "", false
	}}
	withFake(t, port, func(t *testing.T, x *Tor) {
		begin := time.Now().UTC() // midnight
		c := descriptor.Consensus{ValidAfter: begin.Add(20 * time.Hour), FreshUntil: begin.Add(21 * time.Hour), Interval: 24 * time.Hour}
		times, err := c.Schedule(false)
		if err != nil {
			t.Fatal(err)
		}
		built, err := descriptor.Build(descriptor.Params{
			Key: key, Period: times.Fetched().Period, Revision: 9, Points: []descriptor.Point{pointAt(1), pointAt(2)}, Now: begin,
		})
		if err != nil {
			t.Fatal(err)
		}
		text = string(built.Text)
		go func() { _ = x.Watch(t.Context(), address, func(Snapshot) {}) }() // ends with the test
		for _, step := range []struct {
			after time.Duration
			want  []string
		}{
			{20 * time.Hour, nil},
			{23 * time.Hour, nil},
			{24 * time.Hour, []string{"EXTENDCIRCUIT 1 $" + hsdirB, "EXTENDCIRCUIT 2 $" + hsdirB}},
			{24 * time.Hour, nil},
			{23 * time.Hour, nil},
			{25 * time.Hour, nil},
		} {
			done, from = nil, begin.Add(step.after).Format(consensusTime)
			port.say("650 STATUS_CLIENT NOTICE CONSENSUS_ARRIVED\r\n")
			time.Sleep(2 * lookTime)
			synctest.Wait()
			if !slices.Equal(done, step.want) {
				t.Errorf("a consensus of %s: %q, want %q", from, done, step.want)
			}
		}
	})
}
