// Package awslambda makes the Lambda client of a Lambda.
package awslambda

import (
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/pxhost/pxhost/shared/boot"
)

// New returns a client of the environment's Lambda.
func New(env *boot.Env) *lambda.Client { return lambda.NewFromConfig(boot.AWS(env, "LAMBDA")) }
