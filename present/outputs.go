package present

import (
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// Outputs shows the files that the chunks of a job left.
func Outputs(o api.JobOutputs) Table {
	type F = job.OutputFile
	return tableOf(o.Outputs,
		col("CHUNK", Number, 0, func(f F) Cell { return whole(f.Chunk) }),
		col("NAME", Text, 0, func(f F) Cell { return word(f.Name) }),
		col("SIZE", Number, 0, func(f F) Cell { return size(uint64(f.Size)) }),
		col("WORKER", Text, 2, func(f F) Cell { return word(f.Worker) }),
		col("HASH", Text, 1, func(f F) Cell { return word(f.Hash.String()) }),
	)
}
