package eventlog

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/event"
)

const writerEnv = "SKEIN_TEST_LOG_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func killOptions(dir string) Options {
	o := testOptions(dir, "n1")
	o.SegmentSize = 256 << 10
	return o
}

// writeUntilKilled appends from several goroutines and prints the sequence
// number and hash of each event once it is acknowledged.
func writeUntilKilled(dir string) error {
	l, err := Open(killOptions(dir))
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				drafts := []event.Draft{note(w*1_000_000 + i)}
				if i%2 == 0 {
					drafts[0] = plain(i)
				}
				if i%5 == 0 {
					drafts = append(drafts, note(i), note(i))
				}
				events, err := l.Append(context.Background(), drafts)
				if err != nil {
					return
				}
				for _, e := range events {
					// One write call: a line is whole or not there.
					if _, err := fmt.Printf("%d %s\n", e.Seq, e.Hash); err != nil {
						os.Exit(1) // nobody listens any more
					}
				}
			}
		})
	}
	err = l.Run(context.Background())
	wg.Wait()
	return err
}

// TestKillNine kills a writer under load at random moments: no acknowledged
// event is lost and the chain verifies. SKEIN_PROVE=1 does it 1000 times.
func TestKillNine(t *testing.T) {
	rounds := 3
	if os.Getenv("SKEIN_PROVE") != "" {
		rounds = 1000
	}
	const life = 20 // kills per log: then a new one, so that no round reads much
	dir := t.TempDir()
	total, unacked := 0, uint64(0)
	var slowest time.Duration
	for round := range rounds {
		if round%life == 0 && round > 0 {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		acked := killOnce(t, dir)
		total += len(acked)
		opened := time.Now()
		l, err := Open(killOptions(dir))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		slowest = max(slowest, time.Since(opened))
		checkAcked(t, l, acked)
		last := uint64(0)
		for seq := range acked {
			last = max(last, seq)
		}
		unacked += l.Head(l.Source()).Seq - last
		if round%life == life-1 || round == rounds-1 {
			report, err := l.Verify(t.Context(), nil)
			if err != nil || report.Events != l.Head(l.Source()).Seq || report.Unchecked != 0 {
				t.Fatalf("round %d: %+v, %v", round, report, err)
			}
			if report.StateHash != stateHash(l) {
				t.Fatalf("round %d: state hash %s, verify says %s", round, stateHash(l), report.StateHash)
			}
		}
		l.Close()
	}
	t.Logf("%d kills, %d acknowledged events, 0 lost; %d more were found that nobody was told of; slowest recovery %s",
		rounds, total, unacked, slowest.Round(time.Millisecond))
}

// killOnce runs a writer, kills it, and returns what it acknowledged.
func killOnce(t *testing.T, dir string) map[uint64]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked := map[uint64]string{}
	var kill *time.Timer
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		if kill == nil {
			kill = time.AfterFunc(time.Duration(rand.IntN(100_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		}
		var seq uint64
		var hash string
		if _, err := fmt.Sscanf(sc.Text(), "%d %s", &seq, &hash); err != nil || len(hash) != 64 {
			continue // cut off by the kill
		}
		acked[seq] = hash
	}
	_ = cmd.Wait() // it was killed
	if kill == nil {
		t.Fatal("the writer died before it acknowledged anything")
	}
	kill.Stop()
	return acked
}

func checkAcked(t *testing.T, l *Log, acked map[uint64]string) {
	t.Helper()
	first := ^uint64(0)
	for seq := range acked {
		first = min(first, seq)
	}
	found := 0
	for e, err := range l.Read(l.Source(), first) {
		if err != nil {
			t.Fatal(err)
		}
		if want, ok := acked[e.Seq]; ok {
			if want != e.Hash.String() {
				t.Fatalf("event %d has another hash than was acknowledged", e.Seq)
			}
			found++
		}
	}
	if found != len(acked) {
		t.Fatalf("%d of %d acknowledged events lost", len(acked)-found, len(acked))
	}
}
