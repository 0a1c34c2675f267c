package main

import (
	"context"
	"strconv"

	"github.com/skein-project/skein/api"
)

// jobHistory shows every change of state of a job, with chunks of its chunks too.
func (a *app) jobHistory(ctx context.Context, c *api.Client, id string, chunks bool) error {
	path := "/v1/jobs/" + pathEscape(id) + "/history"
	if chunks {
		path += "?chunks=true"
	}
	h, raw, err := fetch[api.JobHistory](ctx, c, path)
	if err != nil {
		return err
	}
	return a.show(view{raw: raw, items: items(h.Transitions), table: func(f form) table {
		t := table{head: []string{"AT", "TERM", "CHUNK", "ATTEMPT", "WORKER", "FROM", "TO", "BY", "REASON"}}
		for _, r := range h.Transitions {
			chunk, attempt := unknown, unknown
			if r.Chunk != nil {
				chunk, attempt = strconv.Itoa(*r.Chunk), strconv.Itoa(r.Attempt)
			}
			t.add(when(r.At, h.ObservedAt, f.wide()), termOf(uint64(r.Term)), chunk, attempt, orDash(r.Worker), orDash(r.From), r.To,
				orDash(r.Actor), orDash(r.Reason))
		}
		return t
	}})
}
