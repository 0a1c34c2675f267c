package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// ChunkResult is each line of GET /v1/jobs/{id}/chunks: one accepted result, in
// the order of the log. Of two lines of one chunk the first counts, or one that
// settles.
type ChunkResult struct {
	Job     job.ID         `json:"job"`
	Chunk   int            `json:"chunk"`
	Attempt int            `json:"attempt"`
	Worker  cluster.NodeID `json:"worker"`
	At      time.Time      `json:"at"` // it was accepted
	Seconds float64        `json:"seconds"`
	// Settles says that results of the chunk differed and this one decides.
	Settles bool `json:"settles,omitempty"`
	// Offset is the chunk's first iteration.
	Offset     uint64                `json:"offset"`
	Iterations uint64                `json:"iterations"`
	Metrics    map[string]job.Metric `json:"metrics"`
	Hash       cluster.Hash          `json:"hash"` // SHA-256 of {iterations, metrics} as JSON
	// Cursor is a position in the log up to which all lines of this job have
	// been sent, this one too unless more of its event follow: who goes on from
	// the cursor of the last line misses nothing.
	Cursor string `json:"cursor"`
}

// ChunkQuery selects results of chunks. The zero value selects all.
type ChunkQuery struct {
	After  Cursor // only later ones
	Follow bool   // go on until the job has ended
}

// Chunks calls f with the results of a job's chunks in the order of the log; with
// q.Follow until the job has ended, over any number of connections and daemons,
// each chunk once.
// It returns the position up to which it read.
func (c *Client) Chunks(ctx context.Context, id string, q ChunkQuery, o FollowOptions, f func(ChunkResult) error) (Cursor, error) {
	at, seen := q.After.Clone(), map[int]bool{}
	once := func(ctx context.Context) error {
		v := url.Values{}
		if q.Follow {
			v.Set("follow", "true")
		}
		if len(at) > 0 {
			v.Set("after", at.String())
		}
		ended := false
		err := c.stream(ctx, "/v1/jobs/"+url.PathEscape(id)+"/chunks"+o.query(v), nil, func(line []byte) error {
			if bytes.HasPrefix(line, []byte(`{"cursor":`)) {
				ended = bytes.Contains(line, []byte(`"end":true`))
				return position(line, at, o.Position)
			}
			var r ChunkResult
			if err := json.Unmarshal(line, &r); err != nil {
				return fmt.Errorf("chunks of job %s: %w: %w", id, ErrAnswer, err)
			}
			next, err := event.ParseCursor(r.Cursor)
			if err != nil {
				return fmt.Errorf("chunks of job %s: %w: %w", id, ErrAnswer, err)
			}
			if !seen[r.Chunk] || r.Settles {
				if err := f(r); err != nil {
					return err
				}
				seen[r.Chunk] = true
			}
			for s, seq := range next {
				at.Advance(s, seq)
			}
			return nil
		})
		if errors.Is(err, errStreamEnd) && (ended || !q.Follow) {
			return ErrStop
		}
		return err
	}
	if q.Follow {
		return at, c.follow(ctx, o, once)
	}
	if err := once(ctx); !errors.Is(err, ErrStop) {
		return at, err
	}
	return at, nil
}

// ChunkEnd is the last line of GET /v1/jobs/{id}/chunks.
type ChunkEnd struct {
	Cursor string `json:"cursor"` // all lines of the job up to it were sent
	// End says that the job has ended and no line will follow.
	End bool `json:"end"`
}
