package jobs

import (
	"context"
	"strconv"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// jobHistory shows every change of state of a job, with chunks of its chunks too.
func jobHistory(a *cli.App, ctx context.Context, c *api.Client, id string, chunks bool) error {
	path := "/v1/jobs/" + pathEscape(id) + "/history"
	if chunks {
		path += "?chunks=true"
	}
	h, raw, err := cli.Fetch[api.JobHistory](ctx, c, path)
	if err != nil {
		return err
	}
	return a.Show(cli.View{Raw: raw, Items: cli.Items(h.Transitions), Table: func(f cli.Form) cli.Table {
		t := cli.Table{Head: []string{"AT", "TERM", "CHUNK", "ATTEMPT", "WORKER", "FROM", "TO", "BY", "REASON"}}
		for _, r := range h.Transitions {
			chunk, attempt := present.Unknown, present.Unknown
			if r.Chunk != nil {
				chunk, attempt = strconv.Itoa(*r.Chunk), strconv.Itoa(r.Attempt)
			}
			t.Add(cli.When(r.At, h.ObservedAt, f.Wide()), cli.TermOf(uint64(r.Term)), chunk, attempt, cli.OrDash(r.Worker), cli.OrDash(r.From), r.To,
				cli.OrDash(r.Actor), cli.OrDash(r.Reason))
		}
		return t
	}})
}
