package jobs

import (
	"context"

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
	return a.Show(cli.View{Raw: raw, Items: cli.Items(h.Transitions), Table: func() present.Table { return present.Transitions(h) }})
}
