package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/channel"
	"github.com/skein-project/skein/realtime"
	"github.com/skein-project/skein/realtime/delta"
)

const (
	anns = job.ID("jaaaaaaaaaaaaaaaaaaaaaaaaaa")
	bobs = job.ID("jbbbbbbbbbbbbbbbbbbbbbbbbbb")
)

// film is a stream of changes, which goes on as the test says.
type film struct {
	next   chan []realtime.Message
	closed chan struct{}
}

func (f *film) Next(ctx context.Context) ([]realtime.Message, error) {
	select {
	case list, open := <-f.next:
		if !open {
			return nil, errors.New("it broke")
		}
		return list, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *film) Close() { close(f.closed) }

// house has listeners.
type house struct {
	t *testing.T

	mu    sync.Mutex // for what follows
	ears  []channel.Ear
	told  []string
	films []*film
}

func (h *house) Heard() ([]channel.Ear, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ears), nil
}

func (h *house) listen(ears ...channel.Ear) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ears = ears
}

func (h *house) Publish(name string, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var p api.ChannelPush
	if err := json.Unmarshal(data, &p); err != nil {
		h.t.Error(err)
	}
	text := name + " " + p.Type
	if p.Job != nil {
		p.Jobs = append(p.Jobs, *p.Job)
	}
	for _, j := range p.Jobs {
		text += fmt.Sprintf(" %s %s %d", j.ID[:2], j.State, j.Chunks.Accepted)
	}
	if p.Cluster != nil {
		text += fmt.Sprint(" ", p.Cluster.Term, p.Cluster.Held)
	}
	h.told = append(h.told, text)
}

func (h *house) watch(r realtime.Request) Watch {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(r.Topics, []string{realtime.TopicJobs, realtime.TopicLease}) || r.May != nil {
		h.t.Errorf("%+v", r)
	}
	f := &film{next: make(chan []realtime.Message, 100), closed: make(chan struct{})}
	h.films = append(h.films, f)
	return f
}

// film is the stream that runs, the n-th.
func (h *house) film(n int) *film {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.films) != n+1 {
		h.t.Fatalf("%d streams, want %d", len(h.films), n+1)
	}
	return h.films[n]
}

// after lets time pass, and says what was told.
func (h *house) after(d time.Duration, want ...string) {
	h.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.told)
	slices.Sort(want)
	if !slices.Equal(h.told, want) {
		h.t.Errorf("told\n%s\nwant\n%s", strings.Join(h.told, "\n"), strings.Join(want, "\n"))
	}
	h.told = nil
}

func say(event, format string, args ...any) realtime.Message {
	return realtime.Message{Event: event, Data: fmt.Appendf(nil, format, args...)}
}

func row(id job.ID, owner string, state job.State) string {
	return fmt.Sprintf(`{"id":%q,"owner":%q,"state":%q,"submitted_at":"2026-01-01T00:00:00Z","iterations":{"total":5,"accepted":0}}`, id, owner, state)
}

// begins is what a stream begins with.
func begins(rows string) []realtime.Message {
	return []realtime.Message{
		say(delta.Hello, `{}`), say(delta.Snapshot, `{"topic":"jobs","rows":[%s],"last":true}`, rows),
		say(delta.Snapshot, `{"topic":"lease","rows":[{"holder":"n1","term":7}],"last":true}`), say(delta.Synced, `{}`),
	}
}

// TestRelay: the stream is read only while somebody listens; who begins to listen is told how
// things are, and then what becomes of them, each channel its own and not too often.
func TestRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, began := &house{t: t}, time.Now()
		r := New(Options{Watch: h.watch, Heard: h.Heard, Publish: h.Publish, Now: func() time.Duration { return time.Since(began) }, Wall: time.Now, Logger: zerolog.Nop()})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		defer func() { stop(); <-ended }()
		h.after(5 * time.Second)
		if len(h.films) != 0 {
			t.Fatal("the stream is read for nobody")
		}
		annsJob, annsJobs, bobsJob := channel.Ear{Name: "job:" + string(anns)}, channel.Ear{Name: "user:#u:ann"}, channel.Ear{Name: "job:" + string(bobs)}
		leased := channel.Ear{Name: "cluster"}
		h.listen(annsJob, annsJobs, leased)
		h.after(time.Second)
		f := h.film(0)
		f.next <- begins(row(anns, "user:ann", job.Running) + "," + row(bobs, "user:bob", job.Running))
		h.after(2*time.Second, "job:"+string(anns)+" job ja running 0", "user:#u:ann jobs ja running 0", "cluster cluster 7 true")

		// Another begins to listen: what it does not listen to is not told again.
		annsJob.Asked++
		h.listen(annsJob, annsJobs, leased, bobsJob)
		h.after(2*time.Second, "job:"+string(anns)+" job ja running 0", "job:"+string(bobs)+" job jb running 0")

		// Counts are told on the job's own channel alone, what else changes to its user, too.
		f.next <- []realtime.Message{say(delta.Gauges, `{"topic":"jobs","keys":[%q,%q],"cols":{"chunks.accepted":[3,null],"elapsed_seconds":[9,9],"unknown":[1,2]}}`, anns, bobs)}
		h.after(time.Second, "job:"+string(anns)+" job ja running 3", "job:"+string(bobs)+" job jb running 0")
		f.next <- []realtime.Message{say(delta.Delta, `{"topic":"jobs","set":[%s],"del":[%q]}`, row(anns, "user:ann", job.Completed), bobs), say(delta.Delta, `{"topic":"lease","set":[{"holder":"","term":7}],"del":[]}`)}
		h.after(time.Second, "job:"+string(anns)+" job ja completed 0", "user:#u:ann jobs ja completed 0", "cluster cluster 7 false", "job:"+string(bobs)+" gone")

		// Very many changes are one message for as long as one may not be told.
		for range 50 {
			f.next <- []realtime.Message{say(delta.Delta, `{"topic":"jobs","set":[%s],"del":[]}`, row(anns, "user:ann", job.Running))}
		}
		h.after(time.Second, "job:"+string(anns)+" job ja running 0", "user:#u:ann jobs ja running 0")

		// What is no row is passed over, and the stream goes on.
		f.next <- []realtime.Message{say(delta.Delta, `{"topic":"jobs","set":[{"id":5}]}`), say(delta.Delta, `{"topic":"links","set":[5]}`)}
		h.after(time.Second)

		// It breaks: it begins anew, and all is told as it is then.
		close(f.next)
		h.after(2 * time.Second)
		<-f.closed
		h.film(1).next <- begins("")
		h.after(time.Second, "job:"+string(anns)+" gone", "user:#u:ann jobs", "cluster cluster 7 true")

		// Nobody listens any more.
		h.listen()
		h.after(time.Second)
		<-h.film(1).closed
	})
}

// TestBounded: no message is longer than a listener can take, and what is left out is said.
func TestBounded(t *testing.T) {
	b := newBoard()
	long := strings.Repeat("é", 5000)
	for i := range 200 {
		id := job.ID(fmt.Sprintf("j%026d", i))
		text, err := json.Marshal(api.Job{ID: id, Owner: "user:ann", Name: long, Reason: long, SubmittedAt: time.Unix(int64(i), 0)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.take(say(delta.Delta, `{"topic":"jobs","set":[%s],"del":[]}`, text)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := b.say("user:#u:ann", true, time.Now())
	var p api.ChannelPush
	if err = errors.Join(err, json.Unmarshal(text, &p)); err != nil || len(text) > maxPush || !p.More || len(p.Jobs) == 0 || p.Jobs[0].SubmittedAt.Unix() != 199 {
		t.Errorf("%d bytes, %d jobs, more %v, %v", len(text), len(p.Jobs), p.More, err)
	}
}

// FuzzTake: whatever the stream is, it is read or refused, and no message is too long.
func FuzzTake(f *testing.F) {
	for _, m := range begins(row(anns, "user:ann", job.Running)) {
		f.Add(m.Event, string(m.Data))
	}
	f.Add(delta.Gauges, `{"topic":"jobs","keys":["`+string(anns)+`"],"cols":{"chunks.accepted":[1e300]}}`)
	f.Fuzz(func(t *testing.T, event, data string) {
		b := newBoard()
		for _, m := range begins(row(anns, "user:ann", job.Running)) {
			if _, err := b.take(m); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = b.take(realtime.Message{Event: event, Data: []byte(data)}) // it may be refused
		for _, name := range []string{"cluster", "user:#u:ann", "job:" + string(anns)} {
			if text, err := b.say(name, true, time.Unix(0, 0)); err != nil || len(text) > maxPush {
				t.Errorf("%s: %d bytes, %v", name, len(text), err)
			}
		}
	})
}
