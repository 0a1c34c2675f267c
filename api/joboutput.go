package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// JobOutputs answers GET /v1/jobs/{id}/outputs: the files that the accepted chunks of a
// job left, by chunk and name.
type JobOutputs struct {
	Header
	Job     job.ID           `json:"job"`
	Sum     *job.OutputSum   `json:"sum,omitempty"` // none: there are no files
	Outputs []job.OutputFile `json:"outputs"`
}

// JobOutputs lists the files that the chunks of a job left.
func (c *Client) JobOutputs(ctx context.Context, id string) (JobOutputs, error) {
	return get[JobOutputs](ctx, c, "/v1/jobs/"+url.PathEscape(id)+"/outputs")
}

// JobOutput reads a file that a chunk of a job left into w. An error that wraps ErrAnswer
// says that the bytes are not those of want.
func (c *Client) JobOutput(ctx context.Context, id string, chunk int, name string, want job.File, w io.Writer) error {
	path := "/v1/jobs/" + url.PathEscape(id) + "/outputs/" + strconv.Itoa(chunk) + "/" + url.PathEscape(name)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return fmt.Errorf("request %s: %w", path, err)
	}
	resp, err := c.roundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return c.broke(req, err)
		}
		return problemOf(req, resp.StatusCode, body)
	}
	sum := cluster.NewDigest(io.LimitReader(resp.Body, want.Size+1))
	n, err := io.Copy(w, sum)
	switch {
	case err != nil:
		return c.broke(req, err)
	case n != want.Size || sum.Sum() != want.Hash:
		return fmt.Errorf("%s: %w: %d bytes that are not those of %s", path, ErrAnswer, n, want.Hash)
	}
	return nil
}
