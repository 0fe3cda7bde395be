package snapline.benchmarks;

import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedMutableProjection;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;

/** Evaluates each expression of a projection for each row and tells the errors, one line for each expression. */
public class RowErrors {
    /** Names of error conditions separated by commas, empty for rows without an error. */
    public String write(Project project) {
        LocalRelation relation = (LocalRelation) project.child();
        StringBuilder written = new StringBuilder();
        scala.collection.Iterator expressions = project.projectList().iterator();
        while (expressions.hasNext()) {
            Expression expression = (Expression) expressions.next();
            InterpretedMutableProjection compute = projection(expression, relation);
            scala.collection.Iterator rows = relation.data().iterator();
            while (rows.hasNext()) {
                try {
                    compute.apply((InternalRow) rows.next());
                } catch (Throwable error) {
                    written.append(condition(error));
                    // Builders of maps keep what they had when the error came.
                    compute = projection((Expression) expression.clone(), relation);
                }
                written.append(rows.hasNext() ? "," : "\n");
            }
        }
        return written.toString();
    }

    private InterpretedMutableProjection projection(Expression expression, LocalRelation relation) {
        scala.collection.immutable.List one =
            scala.collection.immutable.List$.MODULE$.empty().$colon$colon(expression);
        InterpretedMutableProjection made = new InterpretedMutableProjection(one, relation.output());
        made.initialize(0);
        return made;
    }

    private String condition(Throwable error) {
        if (error instanceof SparkThrowable && ((SparkThrowable) error).getCondition() != null) {
            return ((SparkThrowable) error).getCondition();
        }
        return error.getClass().getSimpleName();
    }
}
