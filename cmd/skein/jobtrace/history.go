package jobtrace

import (
	"context"
	"net/url"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// History shows every change of state of a job, with chunks of its chunks too.
func History(a *cli.App, ctx context.Context, c *api.Client, id string, chunks bool) error {
	path := "/v1/jobs/" + url.PathEscape(id) + "/history"
	if chunks {
		path += "?chunks=true"
	}
	h, raw, err := cli.Fetch[api.JobHistory](ctx, c, path)
	if err != nil {
		return err
	}
	return a.Show(cli.View{Raw: raw, Items: cli.Items(h.Transitions), Table: func() present.Table { return present.Transitions(h) }})
}
