package scheduler

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// attack is what one worker of three does to the holder.
type attack struct {
	// answer replaces the results of chunks; serve replaces all that the worker
	// says after the welcome, until it returns.
	answer  func(r job.Attempt, n uint64) []stream.Frame
	serve   func(conn net.Conn, in *stream.Decoder)
	counted string // a metric that must have risen
	failed  bool   // attempts must have failed
}

const (
	offencesMetric = "skein_worker_offences_total"
	endsMetric     = "skein_worker_stream_ends_total"
)

// send writes frames until the other side has enough of them.
func send(conn net.Conn, frames ...stream.Frame) bool {
	for _, f := range frames {
		if stream.Write(conn, f) != nil {
			return false
		}
	}
	return true
}

// lie changes a good result.
func lie(change func(*stream.Result)) func(job.Attempt, uint64) []stream.Frame {
	return func(r job.Attempt, n uint64) []stream.Frame {
		f := goodResult(r, n)
		change(f.Result)
		return []stream.Frame{f}
	}
}

func attacks() map[string]attack {
	metric := func(f func(*job.Metric)) func(job.Attempt, uint64) []stream.Frame {
		return lie(func(r *stream.Result) {
			m := r.Result.Metrics["x"]
			f(&m)
			r.Result.Metrics["x"] = m
		})
	}
	drop := func(_ net.Conn, in *stream.Decoder) {
		for {
			if _, err := in.Read(); err != nil {
				return
			}
		}
	}
	return map[string]attack{
		"twice, and different the second time": {answer: func(r job.Attempt, n uint64) []stream.Frame {
			other := goodResult(r, n)
			other.Result.Result.Metrics["x"] = job.Metric{N: n, Mean: -5, Min: -5, Max: -5}
			return []stream.Frame{goodResult(r, n), other}
		}},
		"the result of another chunk": {answer: lie(func(r *stream.Result) { r.Chunk = (r.Chunk + 1) % 60 })},
		"a chunk that is none":        {answer: lie(func(r *stream.Result) { r.Chunk += 1000 }), counted: offencesMetric},
		"a job that is none":          {answer: lie(func(r *stream.Result) { r.Job = "jnone" })},
		"a later attempt":             {answer: lie(func(r *stream.Result) { r.Number = math.MaxInt32 }), counted: offencesMetric},
		"too many iterations":         {answer: lie(func(r *stream.Result) { r.Result.Iterations++ }), failed: true},
		"no iterations":               {answer: lie(func(r *stream.Result) { r.Result.Iterations = 0 }), failed: true},
		"more samples than work":      {answer: metric(func(m *job.Metric) { m.N *= 2 }), failed: true},
		"infinite":                    {answer: metric(func(m *job.Metric) { m.Max = math.Inf(1) }), counted: offencesMetric},
		"endless run time":            {answer: lie(func(r *stream.Result) { r.Seconds = math.Inf(1) }), counted: offencesMetric},
		"garbage": {serve: func(conn net.Conn, _ *stream.Decoder) {
			junk := rand.NewChaCha8([32]byte{})
			b := make([]byte, 4096)
			for range 100 {
				_, _ = junk.Read(b) // never fails
				b[0], b[1] = 0, 0   // a length that is allowed
				if _, err := conn.Write(b); err != nil {
					return
				}
			}
		}, counted: offencesMetric},
		"frames of a holder": {serve: func(conn net.Conn, in *stream.Decoder) {
			send(conn, stream.Frame{Hello: &stream.Hello{Term: 9, Holder: "b"}}, stream.Frame{Accepted: &stream.Accepted{Term: 9}})
			drop(conn, in)
		}, counted: offencesMetric},
		"half a frame": {serve: func(conn net.Conn, in *stream.Decoder) {
			if _, err := conn.Write([]byte{0, 0, 4, 0, '{'}); err == nil { // of 1 KiB
				drop(conn, in)
			}
		}, counted: endsMetric},
		"comes and goes": {serve: func(net.Conn, *stream.Decoder) {}, counted: endsMetric},
		"never reads": {serve: func(conn net.Conn, _ *stream.Decoder) {
			for send(conn, stream.Frame{Status: &stream.Status{}}) {
				time.Sleep(time.Second)
			}
		}, counted: endsMetric},
		"says nothing": {serve: drop, counted: endsMetric},
		"accepts, and never answers": {serve: func(conn net.Conn, in *stream.Decoder) {
			var mu sync.Mutex
			has := []job.Attempt{}
			go func() {
				for ok := true; ok; time.Sleep(time.Second) {
					mu.Lock()
					st := &stream.Status{Ready: true, Running: slices.Clone(has)}
					mu.Unlock()
					ok = send(conn, stream.Frame{Status: st})
				}
			}()
			for {
				f, err := in.Read()
				if err != nil {
					return
				}
				if f.Assign == nil {
					continue
				}
				mu.Lock()
				for _, c := range f.Assign.Chunks {
					has = append(has, job.Attempt{Job: f.Assign.Job, Chunk: c.Chunk, Number: c.Number})
				}
				mu.Unlock()
			}
		}},
		"all that it ever said, again each time": {answer: func() func(job.Attempt, uint64) []stream.Frame {
			var said []stream.Frame
			return func(r job.Attempt, n uint64) []stream.Frame {
				said = append(said, goodResult(r, n))
				return slices.Clone(said)
			}
		}()},
		"flood of results": {serve: func(conn net.Conn, in *stream.Decoder) {
			reads := make(chan struct{})
			go func() { defer close(reads); drop(conn, in) }()
			for i := 0; i < 5000 && send(conn, goodResult(job.Attempt{Job: "jnone", Chunk: i, Number: 1}, 10)); i++ {
			}
			<-reads
		}},
		"flood of failures": {answer: func(r job.Attempt, _ uint64) []stream.Frame {
			var out []stream.Frame
			for range 300 {
				out = append(out, failure(r, "no"))
			}
			return out
		}, failed: true},
	}
}

// TestAttacks has a worker do its worst beside two honest ones: the holder
// goes on, the honest do as much as they would alone, nothing is lost, and
// nothing counts twice or without being computed.
func TestAttacks(t *testing.T) {
	const chunks = 60
	for name, attack := range attacks() {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, r *rig, _, evil, _ *fakeWorker) {
				evil.answer, evil.hostile = attack.answer, attack.serve
				stop := r.run(1)
				before := r.metric(attack.counted)
				id := r.submit("k", chunks)
				// Two of three workers with the slots of all would take half as
				// long again.
				r.until(time.Minute, "the work of the honest", func() bool { return r.job(id).Counts.Accepted >= chunks*2/3 })
				j := r.ended(id, 10*time.Minute)
				wantDone(t, j)
				if j.Iterations != j.Spec.Iterations {
					t.Errorf("%d of %d iterations count", j.Iterations, j.Spec.Iterations)
				}
				for c, n := range r.log.acceptsOf(id) {
					if n != 1 {
						t.Errorf("chunk %d was accepted %d times", c, n)
					}
				}
				if attack.counted != "" {
					// The job may end before the holder loses its patience.
					r.until(time.Minute, attack.counted, func() bool { return r.metric(attack.counted) > before })
				}
				if n := r.log.count(event.KindChunkFailed); attack.failed && n == 0 {
					t.Error("no attempt failed")
				}
				if err := stop(); err == nil {
					t.Error("the holder ended by itself")
				}
				time.Sleep(2 * time.Second) // the hostile notice that their streams are gone
			})
		})
	}
}

// acceptsOf counts the accepted results of each chunk of a job.
func (l *memLog) acceptsOf(id job.ID) map[int]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[int]int)
	for _, e := range l.events {
		var many event.ChunksAccepted
		var one event.ChunkAccepted
		switch {
		case e.Kind == event.KindChunksAccepted && json.Unmarshal(e.Body, &many) == nil && many.Job == id:
			for _, a := range many.Accepts {
				out[a.Chunk]++
			}
		case e.Kind == event.KindChunkAccepted && json.Unmarshal(e.Body, &one) == nil && one.Job == id:
			out[one.Chunk]++
		}
	}
	return out
}
