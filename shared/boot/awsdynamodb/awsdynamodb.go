// Package awsdynamodb makes the DynamoDB client of a Lambda.
package awsdynamodb

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/pxhost/pxhost/shared/boot"
)

// New returns a client of the environment's DynamoDB.
func New(env *boot.Env) *dynamodb.Client { return dynamodb.NewFromConfig(boot.AWS(env, "DYNAMODB")) }
