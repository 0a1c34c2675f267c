package status

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/status/openapi"
	"github.com/skein-project/skein/status/query"
	"github.com/skein-project/skein/status/stream"
)

// chunks sends the accepted results of a job's chunks, and goes on until the job
// has ended if asked to.
func (hs *handlers) chunks(w http.ResponseWriter, r *http.Request) error {
	at, follow, err := parseChunkQuery(r)
	if err != nil {
		return err
	}
	id, err := hs.jobID(r)
	if err != nil {
		return err
	}
	job, err := hs.backend.Job(r.Context(), id)
	if err != nil {
		return err
	}
	return hs.followers.Serve(hs.places, w, r, func(ctx context.Context, out *stream.Writer) error {
		cs := chunkStream{hs: hs, out: out, id: id, spec: job.Spec, at: at, sent: make(map[int]bool)}
		return cs.run(ctx, follow)
	})
}

var chunkParams = slices.Concat([]openapi.Param{{Name: "after", Type: "", About: "a cursor: go on behind it"}}, query.FollowParams[:1])

func parseChunkQuery(r *http.Request) (at api.Cursor, follow bool, err error) {
	at = api.Cursor{}
	for name, values := range r.URL.Query() {
		switch name {
		case "after":
			at, err = event.ParseCursor(values[0])
		case "follow":
			follow, err = query.Flag(values[0])
		}
		if err != nil {
			return nil, false, api.Errorf(api.CodeInvalidRequest, "%s: %s", name, err)
		}
	}
	return at, follow, nil
}

// chunkStream serves one reader of results.
type chunkStream struct {
	hs   *handlers
	out  *stream.Writer
	id   job.ID
	spec job.Spec
	at   api.Cursor   // all up to it was sent
	sent map[int]bool // chunks of which a line was sent; at most the job's
}

func (cs *chunkStream) run(ctx context.Context, follow bool) error {
	b := cs.hs.backend
	if len(cs.at) == 0 {
		if cs.at = b.Oldest().Clone(); len(cs.at) > 0 {
			if err := cs.out.Line(api.StreamPosition{Cursor: cs.at.String(), Compacted: true}); err != nil {
				return err
			}
		}
	}
	for {
		changed := b.Changed() // before the look, so that nothing is missed
		job, err := b.Job(ctx, cs.id)
		if err != nil {
			return err
		}
		if err := cs.send(ctx); err != nil {
			return err
		}
		if !follow || job.State.Final() {
			return cs.out.Line(api.ChunkEnd{Cursor: cs.at.String(), End: job.State.Final()})
		}
		did, err := cs.hs.followers.Wait(ctx, changed, nil, eventsMin, keepalive)
		if err != nil {
			return err
		}
		if !did {
			if err := cs.out.Line(api.StreamPosition{Cursor: cs.at.String()}); err != nil {
				return err
			}
		}
	}
}

// send sends what there is.
func (cs *chunkStream) send(ctx context.Context) error {
	for e, err := range cs.hs.backend.Events(ctx, cs.at, time.Time{}, event.Subject{Job: string(cs.id)}) {
		if err != nil {
			return err
		}
		if (e.Kind == event.KindChunkAccepted || e.Kind == event.KindChunksAccepted) && !cs.hs.backend.Void(e) {
			if err := cs.event(e); err != nil {
				return err
			}
		}
		switch now := time.Now(); {
		case now.Sub(cs.out.Last) > keepalive:
			if err := cs.out.Line(api.StreamPosition{Cursor: cs.at.String()}); err != nil {
				return err
			}
		case now.Sub(cs.out.Flushed) > eventsMin:
			if err := cs.out.Flush(); err != nil {
				return err
			}
		}
	}
	if err := cs.out.Flush(); err != nil {
		return err
	}
	return ctx.Err()
}

// event sends the results that an event holds. Only the last one's cursor is
// behind the event: a reader that breaks off before it gets the event again.
func (cs *chunkStream) event(e event.Event) error {
	list := cs.accepted(e)
	before := maps.Clone(cs.at)
	before[e.Source] = e.Seq - 1
	for i, a := range list {
		cursor := before
		if i == len(list)-1 {
			cursor = cs.at
		}
		offset, _ := cs.spec.ChunkRange(a.Chunk)
		cs.sent[a.Chunk] = true
		if err := cs.out.Write(api.ChunkResult{
			Job: cs.id, Chunk: a.Chunk, Attempt: a.Attempt, Worker: a.Worker, At: e.HLC.Time(), Seconds: a.Seconds, Settles: a.Settles,
			Offset: offset, Iterations: a.Result.Iterations, Metrics: a.Result.Metrics, Hash: a.Result.Hash(), Cursor: cursor.String(),
		}); err != nil {
			return err
		}
	}
	return nil
}

// accepted returns the results in an event that are of this job, can be of it,
// and were not sent.
func (cs *chunkStream) accepted(e event.Event) []event.Accept {
	return slices.DeleteFunc(e.Accepts(cs.id), func(a event.Accept) bool {
		if a.Chunk < 0 || a.Chunk >= cs.spec.Chunks() || cs.sent[a.Chunk] && !a.Settles {
			return true
		}
		_, n := cs.spec.ChunkRange(a.Chunk)
		return a.Result.Validate(n) != nil
	})
}
