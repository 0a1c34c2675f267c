package joboutputs

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/status/door"
)

// stall is for how long a reader may read nothing, or a host that has the file say
// nothing.
const stall = 30 * time.Second

// Source is what has outputs. See status.Backend.
type Source interface {
	// JobOutputs lists the files that the chunks of a job left.
	JobOutputs(ctx context.Context, id job.ID) (api.JobOutputs, error)
	// OpenOutput opens one of them. What is read is verified; the caller closes it.
	OpenOutput(ctx context.Context, id job.ID, chunk int, name string) (job.OutputFile, io.ReadCloser, error)
}

// Serve answers GET /v1/jobs/{id}/outputs/{chunk}/{name} of the job that find finds.
func Serve(b Source, find func(*http.Request) (job.ID, error), places *door.Places) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		chunk, err := strconv.ParseUint(r.PathValue("chunk"), 10, 31)
		if err != nil {
			return api.Errorf(api.CodeNotFound, "no chunk %.32q: chunks are counted from 0", r.PathValue("chunk"))
		}
		id, err := find(r)
		if err != nil {
			return err
		}
		leave, prob := places.Enter(door.Of(r.Context()))
		if prob != nil {
			return prob
		}
		defer leave()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		f, in, err := b.OpenOutput(ctx, id, int(chunk), r.PathValue("name"))
		if err != nil {
			return err
		}
		defer in.Close()
		h := w.Header()
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Length", strconv.FormatInt(f.Size, 10))
		h.Set("Content-Disposition", `attachment; filename="`+f.Name+`"`)
		h.Set("X-Content-Type-Options", "nosniff") // it is whatever a job wrote
		h.Set("Cache-Control", "private, no-transform")
		h.Set("ETag", `"`+f.Hash.String()+`"`)
		// An answer that is cut tells of what goes wrong on the way: the length is known.
		_, _ = io.Copy(&patient{w, http.NewResponseController(w)}, in)
		return nil
	}
}

// patient gives a reader some time for each piece.
type patient struct {
	http.ResponseWriter
	rc *http.ResponseController
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	_ = p.rc.SetWriteDeadline(time.Now().Add(stall)) // not possible on a test recorder
	return p.ResponseWriter.Write(b)
}
