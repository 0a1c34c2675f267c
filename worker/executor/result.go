package executor

import "github.com/skein-project/skein/cluster/job"

// decodeResult reads what a guest wrote to standard output and checks it against the
// chunk's iterations.
func decodeResult(out []byte, iterations uint64) (job.ChunkResult, error) {
	r, err := job.DecodeResult(out)
	if err == nil {
		err = r.Validate(iterations)
	}
	if err != nil {
		return job.ChunkResult{}, err
	}
	return r, nil
}
