package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// JobLog is each line of GET /v1/jobs/{id}/logs: what one attempt wrote to standard
// error, or while it is followed a piece of that. Of a host that cannot be asked there
// is a line with its name and the problem.
type JobLog struct {
	Job     job.ID         `json:"job"`
	Chunk   int            `json:"chunk"`
	Attempt int            `json:"attempt"`
	Worker  cluster.NodeID `json:"worker"`
	Began   *time.Time     `json:"began,omitempty"`   // when the attempt began
	Seconds float64        `json:"seconds,omitempty"` // it ran
	Error   string         `json:"error,omitempty"`   // why it failed
	Running bool           `json:"running,omitempty"` // it may say more
	// More says that this goes on where an earlier line of the same attempt ended.
	More bool `json:"more,omitempty"`
	// Short says that the host that ran it is not asked any more: this is what the
	// cluster kept of it, at most 16 KiB.
	Short   bool   `json:"short,omitempty"`
	Left    uint64 `json:"left,omitempty"` // bytes before this piece that are not kept
	Text    string `json:"text"`
	Problem string `json:"problem,omitempty"` // why Worker does not tell what it keeps
}

// JobLogQuery selects what attempts wrote. The zero value selects all.
type JobLogQuery struct {
	Chunk   *int // of this one
	Attempt int  // of this number; 0: of all
	Failed  bool // of those that failed
	Follow  bool // go on until the job has ended
}

func (q JobLogQuery) values() url.Values {
	v := url.Values{}
	if q.Chunk != nil {
		v.Set("chunk", strconv.Itoa(*q.Chunk))
	}
	if q.Attempt > 0 {
		v.Set("attempt", strconv.Itoa(q.Attempt))
	}
	if q.Failed {
		v.Set("failed", "true")
	}
	if q.Follow {
		v.Set("follow", "true")
	}
	return v
}

// JobLogs calls f with what the attempts at a job's chunks wrote to standard error. A
// stream that breaks is not begun again: f would see it all once more.
func (c *Client) JobLogs(ctx context.Context, id string, q JobLogQuery, f func(JobLog) error) error {
	err := c.stream(ctx, "/v1/jobs/"+url.PathEscape(id)+"/logs"+FollowOptions{}.query(q.values()), nil, func(line []byte) error {
		var l JobLog
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("logs of job %s: %w: %w", id, ErrAnswer, err)
		}
		return f(l)
	})
	if errors.Is(err, errStreamEnd) || errors.Is(err, ErrStop) {
		return nil
	}
	return err
}
