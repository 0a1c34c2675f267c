package joblogs

import (
	"context"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/worker/words"
)

// pollTime is how often running attempts are looked at for a follower.
const pollTime = 200 * time.Millisecond

// ServeLogs tells another host, or this one, what is kept here.
func (l *Logs) ServeLogs(ctx context.Context, _ forward.Asker, req forward.JobLogsWanted, send func(api.JobLog) error) error {
	s := &serving{l: l, req: req, send: send, live: map[job.Attempt]*following{}}
	s.look() // before the files are read, so that none falls between the two
	err := l.o.Ring.Read(req.Job, func(a job.Attempt, failed bool) bool { return s.live[a] == nil && wants(req, a, failed) }, func(e words.Entry) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		line := s.line(e.Attempt, e.Began)
		line.Seconds, line.Error, line.Text = e.Seconds, e.Error, textOf(e.Said.Text())
		return send(line)
	})
	for err == nil {
		var left int
		if left, err = s.pass(); err != nil || !req.Follow {
			return err
		}
		ended := true
		l.o.Log.View(func(st *state.State) {
			j, ok := st.Job(req.Job)
			ended = !ok || j.State.Final()
		})
		if ended && left == 0 {
			return nil
		}
		if err = wait.For(ctx, pollTime); err == nil {
			s.look()
		}
	}
	return err
}

// serving is one reader of what this host keeps.
type serving struct {
	l    *Logs
	req  forward.JobLogsWanted
	send func(api.JobLog) error
	live map[job.Attempt]*following
}

// following is an attempt that runs, or ran when it was first seen, and what was told of it.
type following struct {
	*words.Live
	told  uint64
	begun bool
}

// look finds the attempts that run.
func (s *serving) look() {
	for _, a := range s.l.o.Ring.Live(s.req.Job) {
		if s.live[a.Attempt] == nil && wants(s.req, a.Attempt, true) {
			s.live[a.Attempt] = &following{Live: a}
		}
	}
}

func (s *serving) line(a job.Attempt, began time.Time) api.JobLog {
	return api.JobLog{Job: a.Job, Chunk: a.Chunk, Attempt: a.Number, Worker: s.l.o.Self, Began: &began}
}

// pass sends what was added since the last time, and returns how many attempts run.
func (s *serving) pass() (running int, err error) {
	for a, f := range s.live {
		ended, failed, took := f.Ended() // before its words: none comes later
		if !ended {
			running++
		}
		if s.req.Failed && failed == "" {
			if ended {
				delete(s.live, a) // it has a result
			}
			continue // whether it fails is known at its end
		}
		for {
			text, from := f.After(f.told)
			if len(text) == 0 && (!ended || f.begun && f.told > 0 && failed == "") {
				break
			}
			line := s.line(a, f.Began)
			line.More, line.Left, line.Text, line.Running = f.begun, from-f.told, textOf(text), true
			f.told, f.begun = from+uint64(len(text)), true
			if rest, _ := f.After(f.told); ended && len(rest) == 0 {
				line.Running, line.Error, line.Seconds = false, failed, took.Seconds()
			}
			if err := s.send(line); err != nil {
				return running, err
			}
			if !line.Running {
				break
			}
		}
		if ended {
			delete(s.live, a)
		}
	}
	return running, nil
}

// textOf is what was said as text.
func textOf(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
