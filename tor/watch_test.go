package tor

import (
	"context"
	"fmt"
	"io"
	"slices"
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

// TestQuiesce: points close the circuits over which they send clients, where
// they do not, and the circuits that tor makes anew, are closed; those of other
// services stay.
func TestQuiesce(t *testing.T) {
	id := strings.TrimSuffix(testAddress, ".onion")
	var looks atomic.Int32
	var done []string
	port := &fakePort{answer: func(command string, _ io.Writer) (string, bool) {
		name, circuit, _ := strings.Cut(command, " ")
		switch {
		case name == "CLOSECIRCUIT" || name == "EXTENDCIRCUIT":
			done = append(done, fmt.Sprintf("%s at %d", strings.ReplaceAll(command, "CIRCUIT", ""), looks.Load()))
			if strings.HasPrefix(circuit, "21") {
				return "552 Unknown circuit\r\n", true
			}
			return "250 EXTENDED 1\r\n", true
		case command != "GETINFO circuit-status":
			return "", false
		}
		n := looks.Add(1)
		text := fmt.Sprintf("1%d EXTENDED $%s~r PURPOSE=HS_SERVICE_INTRO HS_STATE=HSSI_CONNECTING REND_QUERY=%s\r\n", n, hsdirA, id)
		if n < 3 { // 20 closes, 21 is closed already, 22 stays
			text += fmt.Sprintf("20 BUILT $%s~b,$%s~r PURPOSE=HS_SERVICE_INTRO HS_STATE=HSSI_ESTABLISHED REND_QUERY=%s\r\n", hsdirB, hsdirA, id)
			text += fmt.Sprintf("21 BUILT $%s~b,$%s~r PURPOSE=HS_SERVICE_INTRO HS_STATE=HSSI_ESTABLISHED REND_QUERY=%s\r\n", hsdirB, hsdirA, id)
		}
		text += fmt.Sprintf("22 BUILT $%s~b,$%s~r PURPOSE=HS_SERVICE_INTRO HS_STATE=HSSI_ESTABLISHED REND_QUERY=%s\r\n", hsdirB, hsdirA, id)
		return "250+circuit-status=\r\n" + text +
			"5 BUILT PURPOSE=HS_SERVICE_REND REND_QUERY=" + id + "\r\n6 BUILT PURPOSE=HS_SERVICE_INTRO REND_QUERY=other\r\n.\r\n250 OK\r\n", true
	}}
	withFake(t, port, func(t *testing.T, x *Tor) {
		looked := int(pointCloses/quiesceTime) + 1
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(looked)*quiesceTime-time.Millisecond)
		defer cancel()
		if err := x.Quiesce(ctx, testAddress); err != nil {
			t.Error(err)
		}
		want := []string{"CLOSE 11 at 1", "EXTEND 20 $" + hsdirB + " at 1", "EXTEND 21 $" + hsdirB + " at 1", "CLOSE 21 at 1", "EXTEND 22 $" + hsdirB + " at 1"}
		for n := 2; n <= looked; n++ {
			want = append(want, fmt.Sprintf("CLOSE 1%d at %d", n, n))
		}
		want = append(want, fmt.Sprintf("CLOSE 22 at %d", looked))
		if !slices.Equal(done, want) {
			t.Errorf("commands %q\nwant %q", done, want)
		}
		if err := x.Quiesce(t.Context(), "nobody.onion"); err == nil {
			t.Error("took no address")
		}
	})
}
