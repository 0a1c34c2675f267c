package forward

import (
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/overload"
)

// Explain says what keeps each worker from a job.
var Explain = &Op[JobName, api.JobExplanation]{
	Name: "explain", At: Holder, Lane: overload.Status, Key: "explanation",
	Doc: "says what keeps each worker from a job", Answers: "the first 4096 workers",
	Who: "any member",
}
