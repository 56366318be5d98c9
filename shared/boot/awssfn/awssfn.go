// Package awssfn makes the Step Functions client of a Lambda.
package awssfn

import (
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/pxhost/pxhost/shared/boot"
)

// New returns a client of the environment's Step Functions.
func New(env *boot.Env) *sfn.Client { return sfn.NewFromConfig(boot.AWS(env, "SFN")) }
