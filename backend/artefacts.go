package backend

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
)

// PutArtefact implements status.ArtefactStore.
func (b *jobs) PutArtefact(_ context.Context, r io.Reader) (cluster.Hash, int64, error) {
	h, err := b.artefacts.Put(r, job.MaxModuleBytes)
	var quota *artefact.QuotaError
	switch {
	case errors.Is(err, artefact.ErrTooLarge):
		return h, 0, api.Errorf(api.CodeTooLarge, "artefact is above %d bytes", job.MaxModuleBytes)
	case errors.As(err, &quota):
		return h, 0, api.Errorf(api.CodeOverloaded, "%v", err).WithHint("raise jobs.artefact_bytes on %s", b.self)
	case err != nil:
		return h, 0, fmt.Errorf("put artefact: %w", err)
	}
	size, _ := b.artefacts.Has(h)
	return h, size, nil
}
