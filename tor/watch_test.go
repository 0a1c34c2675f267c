package tor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatch follows a service from its first seconds over a new descriptor, a
// dead circuit and a lost connection.
func TestWatch(t *testing.T) {
	id := strings.TrimSuffix(testAddress, ".onion")
	var revision, circuits atomic.Int32
	port := &fakePort{answer: func(command string, _ io.Writer) (string, bool) {
		switch command {
		case "GETINFO hs/service/desc/id/" + id:
			if revision.Load() < 0 {
				return "551 No such descriptor\r\n", true
			}
			return fmt.Sprintf("250+hs/service/desc/id/%s=\r\nhs-descriptor 3\r\nrevision-counter %d\r\n.\r\n250 OK\r\n", id, revision.Load()), true
		case "GETINFO circuit-status":
			var b strings.Builder
			for i := range circuits.Load() {
				fmt.Fprintf(&b, "%d BUILT $%s~r PURPOSE=HS_SERVICE_INTRO HS_STATE=HSSI_ESTABLISHED REND_QUERY=%s\r\n", i, strings.Repeat(string(rune('C'-i)), 40), id)
			}
			return "250+circuit-status=\r\n" + b.String() + ".\r\n250 OK\r\n", true
		}
		return "", false
	}}
	revision.Store(-1)
	withFake(t, port, func(t *testing.T, x *Tor) {
		told := make(chan Snapshot, 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- x.Watch(ctx, testAddress, func(s Snapshot) { told <- s }) }()
		begin := time.Now()
		expect := func(what string, within time.Duration, rev, relays int) {
			t.Helper()
			time.Sleep(within)
			synctest.Wait()
			select {
			case s := <-told:
				if !strings.HasSuffix(s.Descriptor, fmt.Sprintf("revision-counter %d\n", rev)) || len(s.Relays) != relays || s.Address != testAddress {
					t.Errorf("%s: after %s: %+v", what, time.Since(begin), s)
				}
			default:
				if relays >= 0 {
					t.Errorf("%s: nothing told", what)
				}
				return
			}
			if relays < 0 {
				t.Errorf("%s: told", what)
			}
		}
		expect("no descriptor", lookTime, 0, -1)
		revision.Store(0)
		circuits.Store(2)
		expect("revision 0", lookTime, 0, -1)
		revision.Store(7)
		expect("first", lookTime, 7, 2)
		expect("the same", 2*lookTime, 0, -1)
		revision.Store(8)
		port.say("650 HS_DESC CREATED " + id + " UNKNOWN UNKNOWN x\r\n")
		expect("created", 0, 8, 2)
		revision.Store(9)
		expect("closer looks", closeLook, 9, 2)
		circuits.Store(1)
		expect("dead circuit", lookTime, 9, 1)
		(*port.conn.Load()).Close()
		revision.Store(10)
		expect("lost connection", 2*minBackoff, 10, 1)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestQuiesce closes the introduction circuits of one service, those that tor
// makes anew as well, and no other circuit.
func TestQuiesce(t *testing.T) {
	id := strings.TrimSuffix(testAddress, ".onion")
	var made atomic.Int32
	var closed []string
	port := &fakePort{answer: func(command string, _ io.Writer) (string, bool) {
		if circuit, ok := strings.CutPrefix(command, "CLOSECIRCUIT "); ok {
			closed = append(closed, circuit)
			if circuit == "11" {
				return "552 Unknown circuit\r\n", true
			}
			return "250 OK\r\n", true
		}
		if command != "GETINFO circuit-status" {
			return "", false
		}
		n := made.Add(1)
		return fmt.Sprintf("250+circuit-status=\r\n1%d EXTENDED $%s~r PURPOSE=HS_SERVICE_INTRO HS_STATE=HSSI_CONNECTING REND_QUERY=%s\r\n"+
			"5 BUILT PURPOSE=HS_SERVICE_REND REND_QUERY=%s\r\n6 BUILT PURPOSE=HS_SERVICE_INTRO REND_QUERY=other\r\n.\r\n250 OK\r\n", n, strings.Repeat("A", 40), id, id), true
	}}
	withFake(t, port, func(t *testing.T, x *Tor) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*quiesceTime-time.Millisecond)
		defer cancel()
		if err := x.Quiesce(ctx, testAddress); err != nil {
			t.Error(err)
		}
		if got := strings.Join(closed, " "); got != "11 12 13" {
			t.Errorf("closed %s", got)
		}
		if err := x.Quiesce(t.Context(), "nobody.onion"); err == nil {
			t.Error("took no address")
		}
	})
}
